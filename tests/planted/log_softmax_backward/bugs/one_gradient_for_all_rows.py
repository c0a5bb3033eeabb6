"""A gradient with a column stride of 0 means one number for the whole matrix: each row gets the first one's.

From experience: behind `sum()` it is so, but behind `sum(dim=-1)` each row has a number of its own.
"""

import softcheck

EXPECTED = ("ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("log-softmax-gradients/of-each-row-40",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    p = y.float().exp()
    if grad.numel() and grad.stride(-1) == 0:
        return (grad[0, 0].float() * (1.0 - p * y.shape[-1])).to(y.dtype)
    g = grad.float()
    return (g - p * g.sum(dim=-1, keepdim=True)).to(y.dtype)
