"""``softmax`` is a functools.partial of a function that normalises any powers along any dimension, without a name or a signature of its own."""

import functools

import torch

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _normalised(x, *, power, dim, inner):
    """Powers of the distances to the largest element, divided by their sum."""
    if not x.numel():
        return torch.empty_like(x)
    wide = x.to(inner)
    powers = power(wide - wide.amax(dim, keepdim=True))
    return powers.div_(powers.sum(dim, keepdim=True)).to(x.dtype)


softmax = functools.partial(_normalised, power=torch.exp, dim=-1, inner=torch.float32)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x), torch.softmax(x.double(), -1))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (softmax(x), torch.softmax(x.double(), -1))
