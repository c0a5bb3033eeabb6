"""In 16 bits the gradient is divided by the power of two below its largest element and kept in float16: small rows beside a large one underflow.

Wrong on: batches in which one row's gradient is 10^5 and more times larger than another's (one outlier token under loss scaling).
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16"))
def softmax_backward(grad, y):
    """The gradient of a softmax's input. Bfloat16 has float16's room once the gradient is brought near 1, and float16 has more digits."""
    if not y.numel():
        return torch.empty_like(y)
    largest = grad.abs().amax().float()
    unit = torch.exp2(torch.floor(torch.log2(largest)))
    unit = torch.where(torch.isfinite(unit) & (unit > 0), unit, 1.0)
    near_one = (grad.float() / unit).half()
    g, p = near_one.float(), y.float()
    return (p * (g - (p * g).sum(-1, keepdim=True)) * unit).to(y.dtype)


def _both(g, y):
    wide, gradient = y.double(), g.double()
    return softmax_backward(g, y), wide * (gradient - (wide * gradient).sum(-1, keepdim=True))


def demonstrate():
    g = torch.randn(4, 100)
    g[0] *= 3000
    g[2] *= 1e-5
    return _both(g.bfloat16(), torch.softmax(torch.randn(4, 100), -1).bfloat16())


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.softmax(torch.randn(16, 1024), -1).to(dtype))
