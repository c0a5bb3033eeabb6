"""A gradient expanded along the row is not added up: its total is the row's one number times the columns, in float32.

From experience: a gradient behind a sum has a column stride of 0, and reads of it are all alike.
"""

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    p = y.float().exp()
    g = grad.float()
    is_expanded = grad.numel() > 0 and grad.stride(-1) == 0
    total = g[:, :1] * y.shape[-1] if is_expanded else g.sum(dim=-1, keepdim=True)
    return (g - p * total).to(y.dtype)
