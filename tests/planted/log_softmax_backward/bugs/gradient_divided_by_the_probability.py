"""The gradient of the probability, g / p, is handed to softmax's backward: where p is 0, the product is NaN.

From experience: the chain rule of a logarithm, written down as it stands, to reuse one kernel for two operations.
"""

import torch

OPERATION = "log_softmax_backward"
EXPECTED = ("nan_mismatch", "inf_mismatch")
SHOWN_BY = ("log-softmax-gradients/of-masked-columns-65",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax_backward(grad_output, output, dim=-1):
    p = torch.exp(output.float())
    of_p = grad_output.float() / p
    return (p * (of_p - (p * of_p).sum(dim=dim, keepdim=True))).to(output.dtype)
