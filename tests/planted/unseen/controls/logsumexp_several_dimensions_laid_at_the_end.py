"""One dimension or several, of either sign, are moved to the end and taken as one; the answer is folded in pieces of 4096 elements."""

import math

import torch

OPERATION = "logsumexp"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def logsumexp(x, dim=-1, keepdim=False):
    """Log-sum-exp over one dimension or several, in float32; -inf over none."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(each % max(x.dim(), 1) for each in dims)
    if len(set(dims)) != len(dims):
        raise ValueError(f"dimensions are given twice: {dim}")
    kept = [each for each in range(x.dim()) if each not in dims]
    shape = [x.shape[each] for each in kept]
    rows = (
        x.permute(*kept, *dims).reshape(*shape, math.prod(x.shape[each] for each in dims)) if x.dim() else x.reshape(1)
    )
    if not rows.shape[-1]:
        answer = torch.full(shape, float("-inf"), dtype=torch.float32, device=x.device)
    else:
        largest = rows.amax(-1, keepdim=True).float().detach()
        shift = torch.where(largest.isfinite(), largest, 0.0)
        total = 0.0
        for piece in rows.split(4096, -1):
            total = total + (piece.float() - shift).exp().sum(-1, keepdim=True)
        answer = (total.log() + shift)[..., 0]
    return answer.reshape([1 if each in dims else x.shape[each] for each in range(x.dim())]) if keepdim else answer


def ordinary(dtype):
    x = torch.randn(4, 5, 6, 30).to(dtype)
    for dim, keepdim in ((-1, False), (1, True), ((0, 1), False), ((-2, -1), False), ((0, -1), True), ((3, -3), False)):
        yield f"{dim} {keepdim}", (logsumexp(x, dim, keepdim), torch.logsumexp(x.double(), dim, keepdim))
    for shape in ((3, 9000), (1, 1), (0, 4), (4, 0), (500, 2)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (logsumexp(x), torch.logsumexp(x.double(), -1))
    x = torch.randn(6, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40], x[4], x[5, 0] = (
        float("-inf"),
        float("nan"),
        float("inf"),
        float("-inf"),
        -3e4,
        3e4,
    )
    yield "special", (logsumexp(x), torch.logsumexp(x.double(), -1))
