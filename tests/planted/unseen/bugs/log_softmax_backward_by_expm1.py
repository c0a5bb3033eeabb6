"""The gradient is (g - s) - s expm1(y), which is exact for a target's own column and loses all small probabilities in the subtraction.

Wrong on: columns without a gradient of their own whose probability is below 10^-6, where the answer is -s p: noise of 6e-8, or 0.
"""

import torch

OPERATION = "log_softmax_backward"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax_backward(grad_output, output, dim=-1):
    """The gradient of a log-softmax's input. expm1 keeps the digits of 1 - p where the model is sure of the target."""
    g, y = grad_output.float(), output.float()
    total = g.sum(dim, keepdim=True)
    return ((g - total) - total * torch.expm1(y)).to(output.dtype)


def _both(g, y):
    gradient = g.double()
    return log_softmax_backward(g, y), gradient - y.double().exp() * gradient.sum(-1, keepdim=True)


def demonstrate():
    g = torch.zeros(3, 100)
    g[:, 7] = -1 / 3
    return _both(g, torch.log_softmax(torch.randn(3, 100) * 10, -1))


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.log_softmax(torch.randn(16, 1024), -1).to(dtype))
