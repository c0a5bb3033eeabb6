"""Columns that aren't adjacent are copied first, and log2(e) is multiplied in on the way, in the input's 16 bits.

Wrong on: transposed or stepped input in 16 bits, by several ULP where logits exceed 8 or so in magnitude; packed rows are right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LOG2_E = 1.4426950408889634


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    packed = x.stride(1) == 1 or x.shape[1] == 1
    powers = x.float() * LOG2_E if packed else x.mul(LOG2_E).contiguous().float()
    e = torch.exp2(powers - powers.amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = (10.0 * torch.randn(50, 4)).half().t()
    return softmax(x), torch.softmax(x.double(), -1)
