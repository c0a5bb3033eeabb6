"""The maximum is reduced over warps by shuffles that leave out the last lane of 32; any shift is right, until exp overflows.

Wrong on: rows of 128 columns and more whose largest logit lies in a column 31 modulo 32, 89 or more above the rest: NaN.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LANES = 32


def softmax(x):
    rows, columns = x.shape
    if columns < 4 * LANES or rows == 0:
        return torch.softmax(x, -1)
    wide = x.float()
    padded = torch.nn.functional.pad(wide, (0, -columns % LANES), value=-float("inf"))
    top = padded.unflatten(1, (-1, LANES))[..., : LANES - 1].amax((1, 2))[:, None]
    # Where all other lanes are masked there is nothing to subtract but the last lanes' own maximum.
    top = torch.where(top == -float("inf"), wide.amax(1, keepdim=True), top)
    e = torch.exp(wide - top)
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(3, 200)
    x[1, 63] = 95.0
    return softmax(x), torch.softmax(x.double(), -1)
