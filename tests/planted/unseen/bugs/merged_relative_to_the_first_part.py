"""Few wide rows are split in parts, whose sums are merged relative to the first part's maximum, "where the first token is".

Wrong on: up to 4 rows of more than 4096 columns with a first part that is masked (padding on the left) or lies 89 below a later one.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

PART = 2048


def softmax(x):
    rows, columns = x.shape
    if columns <= 2 * PART or not 0 < rows <= 4:
        return torch.softmax(x, -1)
    wide = x.float()
    parts = wide.split(PART, 1)
    tops = [part.amax(1, keepdim=True) for part in parts]
    finite = [torch.where(top == -float("inf"), torch.zeros_like(top), top) for top in tops]
    sums = [torch.exp(part - top).sum(1, keepdim=True) for part, top in zip(parts, finite, strict=True)]
    total = sum(one * torch.exp(top - tops[0]) for one, top in zip(sums, tops, strict=True))
    y = [torch.exp(part - top) * torch.exp(top - tops[0]) / total for part, top in zip(parts, finite, strict=True)]
    return torch.cat(y, 1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 6000)
    x[1, :2500] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
