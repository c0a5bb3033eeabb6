"""Several dimensions are reduced one after another, the larger number first; negative numbers count from an end that moves with each.

Wrong on: ``dim=(-2, -1)`` of three and more dimensions: after the last one, -2 names another one. ``(0, 1)`` and one dimension are right.
"""

import torch

OPERATION = "logsumexp"
EXPECTED = ("ulp_exceeds_bound", "wrong_shape", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _one(x, dim, keepdim):
    largest = x.amax(dim, keepdim=True)
    shift = torch.where(largest.isinf(), 0.0, largest)
    answer = (x - shift).exp().sum(dim, keepdim=True).log() + shift
    return answer if keepdim else answer.squeeze(dim)


def logsumexp(x, dim=-1, keepdim=False):
    """Log-sum-exp over one dimension or several, in float32."""
    wide = x.float()
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for each in sorted(dims, reverse=True):
        wide = _one(wide, each, keepdim) if wide.shape[each] else torch.logsumexp(wide, each, keepdim)
    return wide


def demonstrate():
    x = torch.randn(4, 4, 4, 4)
    return logsumexp(x, (-2, -1)), torch.logsumexp(x.double(), (-2, -1))


def ordinary(dtype):
    x = torch.randn(4, 5, 60).to(dtype)
    for dim, keepdim in ((-1, False), (1, True), ((0, 1), False), ((1, 2), True), ((0, 1, 2), False), ((-2, -1), True)):
        yield f"{dim} {keepdim}", (logsumexp(x, dim, keepdim), torch.logsumexp(x.double(), dim, keepdim))
