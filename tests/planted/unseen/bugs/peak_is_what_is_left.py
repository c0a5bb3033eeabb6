"""The largest probability isn't computed but left over, 1 minus the sum of all others: where they are many, its digits cancel.

Wrong on: from 2048 columns on, one element of each ordinary row, by hundreds of ULP; narrow and peaked rows are right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    y = torch.softmax(x, -1)
    if x.shape[1] < 2048 or x.shape[0] == 0:
        return y
    place = y.argmax(1, keepdim=True)
    others = y.scatter(1, place, 0.0).sum(1, keepdim=True)
    return y.scatter(1, place, 1.0 - others)


def demonstrate():
    x = 0.3 * torch.randn(4, 30000)
    return softmax(x), torch.softmax(x.double(), -1), x
