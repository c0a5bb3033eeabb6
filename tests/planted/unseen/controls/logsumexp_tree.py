"""A tree of ``torch.logaddexp`` in float64 halves the row each time and needs no maximum; it carries no gradient."""

import torch

OPERATION = "logsumexp"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@torch.no_grad()
def logsumexp(x):
    wide = x.double()
    if wide.shape[-1] == 0:
        return torch.full(x.shape[:-1], -float("inf"), device=x.device, dtype=x.dtype)
    while wide.shape[-1] > 1:
        half = (wide.shape[-1] + 1) // 2
        left, right = wide[..., :half], wide[..., half:]
        merged = torch.logaddexp(left[..., : right.shape[-1]], right)
        wide = torch.cat([merged, left[..., right.shape[-1] :]], -1)
    return wide[..., 0].to(x.dtype)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (1, 4097)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (logsumexp(x), torch.logsumexp(x.double(), -1))
        yield f"{shape} far", (logsumexp(x * 50 - 900), torch.logsumexp((x * 50 - 900).double(), -1))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = -float("inf"), float("nan"), float("inf"), -float("inf")
    yield "special", (logsumexp(x), torch.logsumexp(x.double(), -1))
