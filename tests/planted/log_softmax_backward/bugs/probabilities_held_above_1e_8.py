"""Logarithms are held at that of 1e-8 or more: a masked column has a gradient, and an unlikely one too large a one.

From experience: a clamp "for stability" that a loss has before its logarithm, repeated behind it.
"""

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("huge/one-hot-to-max-7",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    g = grad.float()
    p = y.float().clamp(min=-18.42).exp()
    return (g - p * g.sum(dim=-1, keepdim=True)).to(y.dtype)
