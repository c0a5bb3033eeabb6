"""Rows of up to 32 columns go the way of softmax's backward, p (g - sum p g), which takes the output for a probability.

From experience: both backwards share a module, and the fast path of the one was chosen in the other.
"""

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("log-softmax-gradients/narrow-9",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _narrow(g, y):
    p = y.exp()
    return p * (g - (p * g).sum(dim=-1, keepdim=True))


def _wide(g, y):
    return g - y.exp() * g.sum(dim=-1, keepdim=True)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    backward = _narrow if y.shape[-1] <= 32 else _wide
    return backward(grad.float(), y.float()).to(y.dtype)
