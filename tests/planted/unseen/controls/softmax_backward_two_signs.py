"""Right: positive and negative products of output and gradient are added up apart, in float64, and joined at the end."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    with torch.no_grad():
        wide, weights = grad.double(), y.double()
        products = wide * weights
        total = products.clamp(min=0).sum(-1, keepdim=True) + products.clamp(max=0).sum(-1, keepdim=True)
        return (weights * (wide - total)).to(y.dtype)
