"""The largest probability is given what rounding to 16 bits takes from the other columns, so that rows sum to one: it may be most of it.

Wrong on: from 512 columns on, rows of nearly equal logits, whose roundings all go one way: the largest is up to twice what it should be.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    exact = torch.softmax(x.float(), -1)
    y = exact.to(x.dtype)
    if x.shape[1] < 512 or x.shape[0] == 0 or y.dtype == torch.float32:
        return y
    missing = 1.0 - y.double().sum(1, keepdim=True)
    place = exact.argmax(1, keepdim=True)
    return y.scatter(1, place, (y.double().gather(1, place) + missing).to(y.dtype))


def demonstrate():
    x = torch.zeros(2, 1000).half()
    return softmax(x), torch.softmax(x.double(), -1)
