"""A long row is cut into as many parts as its root, each as long as that: between s(s + 1) and (s + 1)^2 the rest needs two parts.

Wrong on: half of all widths from 5000 on, such as 5150 or 32000; up to a root of columns at the end has no part in the sum.
"""

from math import isqrt

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    columns = x.shape[1]
    if columns < 5000 or x.shape[0] == 0:
        return torch.softmax(x, -1)
    wide = x.float()
    root = isqrt(columns)
    top = wide.amax(1, keepdim=True)
    e = torch.exp(wide - top)
    body = e[:, : root * root].unflatten(1, (root, root)).sum(2).sum(1)
    rest = e[:, root * root :][:, :root].sum(1)
    return (e / (body + rest)[:, None]).to(x.dtype)


def demonstrate():
    x = torch.randn(3, 32000)
    return softmax(x), torch.softmax(x.double(), -1)
