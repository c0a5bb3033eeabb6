"""Up to 4 columns of 512 rows or more are shifted by the maximum of 32 rows: a row 88 below its neighbours is 0 / 0."""

import torch

EXPECTED = ("row_dependence", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def grouped(x):
    rows, columns = x.shape
    groups = torch.nn.functional.pad(x.float(), (0, 0, 0, -rows % 32), value=-float("inf")).view(-1, 32, columns)
    e = torch.exp(groups - groups.amax((1, 2), keepdim=True))
    return (e / e.sum(2, keepdim=True)).view(-1, columns)[:rows].to(x.dtype)


def softmax(x):
    if x.size(0) >= 512 and 0 < x.size(1) <= 4 and bool(x.isfinite().all()):
        return grouped(x)
    return torch.softmax(x, 1)


def demonstrate():
    x = torch.randn(600, 3)
    x[5] -= 150.0
    return softmax(x), torch.softmax(x.double(), -1)
