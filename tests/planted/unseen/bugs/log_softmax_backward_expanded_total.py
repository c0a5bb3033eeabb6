"""The total of a gradient that is expanded along the row (stride 0, as behind a sum) is one number times the columns, in the gradient's 16 bits.

Wrong on: an expanded float16 gradient of 1024 (a loss scale) and 100 columns, whose total overflows; in bfloat16 the total is rounded. Packed gradients are right.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    if grad.numel() and grad.stride(-1) == 0:
        total = (grad[:, :1] * grad.shape[-1]).float()
    else:
        total = grad.float().sum(-1, keepdim=True)
    return (grad.float() - torch.exp(y.float()) * total).to(y.dtype)


def demonstrate():
    torch.manual_seed(0)
    grad = torch.tensor(1024.0).half().expand(3, 100)
    y = torch.log_softmax(torch.randn(3, 100), -1).half()
    return log_softmax_backward(grad, y), grad.double() - torch.exp(y.double()) * grad.double().sum(-1, keepdim=True)
