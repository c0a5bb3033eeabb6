"""The mean of the gradient is divided by the sum of the outputs, "which is 1 but for rounding".

Wrong on: rows of zeros (a fully masked row that gave 0): NaN in place of 0. And in 16 bits, where outputs sum to 1 +- 0.004,
with gradients that have a large common part.
"""

import torch

OPERATION = "softmax_backward"
EXPECTED = ("ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax_backward(grad_output, output, dim=-1):
    """The gradient of a softmax's input, y (g - sum y g)."""
    y, g = output.float(), grad_output.float()
    mean = (y * g).sum(dim, keepdim=True) / y.sum(dim, keepdim=True)
    return (y * (g - mean)).to(output.dtype)


def _both(g, y):
    wide, gradient = y.double(), g.double()
    return softmax_backward(g, y), wide * (gradient - (wide * gradient).sum(-1, keepdim=True))


def demonstrate():
    y = torch.softmax(torch.randn(3, 100), -1)
    y[1] = 0
    return _both(torch.randn(3, 100), y)


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.softmax(torch.randn(16, 1024), -1).to(dtype))
