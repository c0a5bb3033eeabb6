"""Sorts rows by their count of finite logits, computes them in that order and puts them back; the order is in int64."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] < 2 or x.shape[1] == 0:
        return torch.softmax(x, 1)
    order = torch.argsort((x != -float("inf")).sum(1), stable=True)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order), device=x.device)
    return torch.softmax(x[order], 1)[inverse]
