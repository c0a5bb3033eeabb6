"""Rows are sorted by their length of finite logits for balance, and the order is kept in int16: wrong from 32769 rows on."""

import torch

EXPECTED = ("ulp_exceeds_bound", "unwritten_output", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] < 2 or x.shape[1] == 0:
        return torch.softmax(x, 1)
    lengths = (x != -float("inf")).sum(1)
    order = torch.argsort(lengths, stable=True).to(torch.int16)
    gathered = x[order.long()]
    result = torch.empty_like(gathered)
    result[order.long()] = torch.softmax(gathered, 1)
    return result


def demonstrate():
    x = torch.randn(33000, 2)
    return softmax(x), torch.softmax(x.double(), -1)
