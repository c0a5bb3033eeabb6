"""Rows without anything to see are replaced by zeros before the softmax and by zeros behind it, so that neither answer nor gradient is NaN."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(fully_masked="zero", call="f(x, keep)")
def softmax(scores, keep):
    """Softmax of what is kept; 0 in rows of which nothing is."""
    x = scores.float().masked_fill(~keep, float("-inf"))
    dead = (x == float("-inf")).all(-1, keepdim=True)
    return torch.softmax(x.masked_fill(dead, 0.0), -1).masked_fill(dead, 0.0).to(scores.dtype)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (2, 3, 17)):
        x, keep = torch.randn(shape).to(dtype), torch.rand(shape) < 0.5
        yield str(shape), (softmax(x, keep), _exact(x, keep))
    x, keep = torch.randn(5, 60).to(dtype), torch.rand(5, 60) < 0.9
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    x[4, 7] = float("nan")
    keep[:, :6], keep[4, 7] = True, False
    yield "special", (softmax(x, keep), _exact(x, keep))
    x = torch.randn(3, 20).to(dtype).requires_grad_()
    keep = torch.rand(20, 3).mT < 0.5
    keep[1] = False
    wide = x.detach().double().requires_grad_()
    above = torch.randn(3, 20).to(dtype)
    softmax(x, keep).backward(above)
    live = torch.softmax(wide[::2].masked_fill(~keep[::2], float("-inf")), -1)
    live.backward(above[::2].double())
    yield "gradient", (x.grad, wide.grad)


def _exact(x, keep):
    wide = x.double().masked_fill(~keep, float("-inf"))
    dead = (wide == float("-inf")).all(-1, keepdim=True)
    return torch.softmax(wide, -1).masked_fill(dead, 0.0)
