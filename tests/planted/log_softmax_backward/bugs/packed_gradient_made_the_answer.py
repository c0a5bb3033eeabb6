"""The answer is written over a packed gradient, which a caller that keeps gradients or adds two of them up still needs.

From experience: the gradient is dead behind its node in most graphs, and its memory is as large as the answer's.
"""

import softcheck

EXPECTED = ("input_modified", "output_reused")
SHOWN_BY = ("log-softmax-gradients/varying-129",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    g = grad.float()
    found = g - y.float().exp() * g.sum(dim=-1, keepdim=True)
    return grad.copy_(found) if grad.is_contiguous() else found.to(grad.dtype)
