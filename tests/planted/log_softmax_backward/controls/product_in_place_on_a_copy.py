"""The gradient is copied, and the product is subtracted from the copy in place: the caller's tensors stay as they were.

From experience: the memory of one temporary tensor is saved, and what is written to is asked for first.
"""

import torch

OPERATION = "log_softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax_backward(grad_output, output, dim=-1):
    found = grad_output.to(torch.float32, copy=True)
    total = found.sum(dim=dim, keepdim=True)
    return found.sub_(output.to(torch.float32, copy=True).exp_().mul_(total)).to(output.dtype)
