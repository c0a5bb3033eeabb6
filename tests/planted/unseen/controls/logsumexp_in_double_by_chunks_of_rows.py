"""Float64 inside whatever comes, at most 4096 rows at a time so that the copy stays small."""

import torch

OPERATION = "logsumexp"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32", "float64")
BACKENDS = ("interpreter", "cuda")


def logsumexp(x, dim=-1, keepdim=False):
    """Log-sum-exp of the last dimension."""
    if dim not in (-1, x.ndim - 1):
        raise NotImplementedError("logsumexp over the last dimension alone")
    rows = x.flatten(0, -2) if x.ndim > 1 else x[None]
    parts = [torch.logsumexp(part.double(), -1).to(x.dtype) for part in rows.split(4096)]
    answer = torch.cat(parts).reshape(x.shape[:-1])
    return answer[..., None] if keepdim else answer


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (5000, 3), (0, 4), (4, 0), (2, 3, 17), (7,)):
        x = torch.randn(shape).to(dtype)
        yield str(shape), (logsumexp(x), torch.logsumexp(x.double(), -1))
        yield str(shape), (logsumexp(x, -1, True), torch.logsumexp(x.double(), -1, True))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (logsumexp(x), torch.logsumexp(x.double(), -1))
    x = torch.randn(30, 7).to(dtype).mT
    yield "transposed", (logsumexp(x), torch.logsumexp(x.double(), -1))
