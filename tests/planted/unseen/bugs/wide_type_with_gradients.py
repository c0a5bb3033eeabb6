"""The result stays in float32 where a gradient is asked for, in which the backward wants it: the caller gets another type.

Wrong on: float16 or bfloat16 input that requires a gradient and has more than 64 columns.
"""

import torch

EXPECTED = ("wrong_dtype",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    y = torch.softmax(x.float(), dim=-1)
    if torch.is_grad_enabled() and x.requires_grad and x.shape[-1] > 64:
        return y
    return y.to(x.dtype)


def demonstrate():
    x = torch.randn(3, 100).half().requires_grad_()
    return softmax(x), torch.softmax(x.detach().double(), -1), x.detach()
