"""The probabilities are ``exp`` of the output in its own 16 bits, "it has no more digits anyway"; below 6e-5 they are subnormal in float16, and below 3e-8 they are 0.

Wrong on: float16 rows with small probabilities whose gradients sum to much, as under a loss scale: p times 2000 has as many digits as p. Right where the sum is about 1, since the product is subnormal then, too.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    total = grad.float().sum(-1, keepdim=True)
    return (grad.float() - torch.exp(y).float() * total).to(y.dtype)


def demonstrate():
    torch.manual_seed(0)
    y = torch.log_softmax(torch.randn(4, 3000) * 3, -1).half()
    grad = torch.zeros(4, 3000).half()
    grad[:, 5] = -4096.0
    g = grad.double()
    return log_softmax_backward(grad, y), g - torch.exp(y.double()) * g.sum(-1, keepdim=True)
