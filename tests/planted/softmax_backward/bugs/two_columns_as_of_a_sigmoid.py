"""Two columns take the derivative of a sigmoid, y (1 - y) g, each for itself: what the other one adds is lost.

From experience: a softmax over two classes is a sigmoid, whose one output has one gradient.
"""

OPERATION = "softmax_backward"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("softmax-gradients/narrow-2",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax_backward(grad_output, output, dim=-1):
    g, p = grad_output.float(), output.float()
    found = p * (1.0 - p) * g if output.shape[dim] == 2 else p * (g - (p * g).sum(dim=dim, keepdim=True))
    return found.to(output.dtype)
