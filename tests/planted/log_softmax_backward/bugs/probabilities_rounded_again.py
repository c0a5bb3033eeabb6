"""The exponential of the rounded output is rounded to 16 bits once more, before it is multiplied by the total.

From experience: `torch.exp` is called on the saved output, and only the product is cast.
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("log-softmax-gradients/of-a-quarter-65",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16"))
def log_softmax_backward(grad, y):
    g = grad.float()
    return (g - torch.exp(y).float() * g.sum(dim=-1, keepdim=True)).to(y.dtype)
