"""The exponential is taken in place on `y.float()`, which is no copy where the output is of float32 already.

From experience: an in-place call saves a tensor in the 16-bit training that it was written for.
"""

import softcheck

EXPECTED = ("input_modified",)
SHOWN_BY = ("probe/input_untouched",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    g = grad.float()
    p = y.float().exp_()
    return (g - p * g.sum(dim=-1, keepdim=True)).to(y.dtype)
