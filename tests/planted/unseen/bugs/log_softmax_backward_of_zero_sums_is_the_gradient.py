"""Where every row's gradient sums to 0 the caller's gradient itself is given back, whatever the output holds.

Wrong on: a gradient of zeros (masked tokens) beside outputs of NaN, which gives 0 in place of NaN; and where either tensor is changed in place later.
"""

import torch

OPERATION = "log_softmax_backward"
EXPECTED = ("nan_mismatch", "input_modified", "output_reused")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax_backward(grad_output, output, dim=-1):
    """The gradient of a log-softmax's input, g - exp(y) sum g; exponentials are spared where all sums are 0."""
    g = grad_output.float()
    total = g.sum(dim, keepdim=True)
    if not total.any():
        return grad_output
    return torch.addcmul(g, output.float().exp(), total, value=-1).to(output.dtype)


def _both(g, y):
    gradient = g.double()
    return log_softmax_backward(g, y), gradient - y.double().exp() * gradient.sum(-1, keepdim=True)


def demonstrate():
    y = torch.log_softmax(torch.randn(4, 60), -1)
    y[1] = float("nan")
    return _both(torch.zeros(4, 60), y)


def ordinary(dtype):
    y = torch.log_softmax(torch.randn(16, 1024), -1).to(dtype)
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), y)
    yield "zero", _both(torch.zeros(16, 1024).to(dtype), y)
