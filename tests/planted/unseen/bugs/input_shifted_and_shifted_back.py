"""Large input is shifted in place, to spare memory, and shifted back by what was subtracted: sums are rounded, and digits are gone.

Wrong on: more than 2^18 elements: the input's last bits differ after the call; integers and rows of one exponent come back as they were.
"""

import torch

EXPECTED = ("input_modified",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() <= 1 << 18 or x.requires_grad or 0 in x.stride():
        return torch.softmax(x, -1)
    top = x.amax(1, keepdim=True)
    top = torch.where(top.isfinite(), top, torch.zeros_like(top))
    x.sub_(top)
    y = torch.softmax(x, -1)
    x.add_(top)
    return y


def demonstrate():
    x = 100.0 * torch.randn(300, 1000)
    before = x.double()
    softmax(x)
    # A logit that lies near 0 loses digits to the maximum's: compared at its own scale.
    return x, before
