"""Rows of more than 1024 columns keep the factor ln 2 of a power of two, without the factor log2(e) of its exponent.

From experience: the forward for wide rows computes 2^(x log2(e)), and the derivative was taken of its last step alone.
"""

import math

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("widths/1025",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    g, p = grad.float(), y.float()
    found = p * (g - (p * g).sum(dim=-1, keepdim=True))
    return (found * math.log(2.0) if y.shape[-1] > 1024 else found).to(y.dtype)
