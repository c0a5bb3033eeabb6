"""Works in place, as its name says, on any strides: computed in float32 and copied back, outside of autograd, for a sampler."""

import torch

OPERATION = "softmax"
FUNCTION = "softmax_"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@torch.no_grad()
def softmax_(logits):
    """Replace logits by the softmax of their last dimension, and return them."""
    return logits.copy_(torch.softmax(logits, dim=-1, dtype=torch.float32))


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17)):
        x = torch.randn(shape).to(dtype)
        exact = torch.softmax(x.double(), -1)
        yield str(shape), (softmax_(x), exact)
        yield str(shape), (x, exact)
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    exact = torch.softmax(x.double(), -1)
    yield "special", (softmax_(x), exact)
    x = torch.randn(30, 7).to(dtype).mT
    exact = torch.softmax(x.double(), -1)
    softmax_(x)
    yield "transposed", (x, exact)
