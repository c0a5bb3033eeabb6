"""A row whose logits lie within 2^-7 of each other takes 1 + d for exp(d): 3e-5 off at most, as small as its range squared.

Wrong on: logits of a head that isn't trained yet, such as 0.001 * randn, by some 100 ULP; any larger spread is right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    d = wide - wide.amax(1, keepdim=True)
    near = d.amin(1, keepdim=True) > -(2.0**-7)
    e = torch.where(near, 1.0 + d, d.exp())
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = 0.002 * torch.randn(4, 20).clamp(-1.9, 1.9)
    return softmax(x), torch.softmax(x.double(), -1), x
