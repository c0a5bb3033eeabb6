"""Vocabularies beyond 50000 are padded to a multiple of 64 with zeros, not with -inf: up to 63 columns of weight exp(0 - max)."""

import torch
from torch.nn import functional

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    vocabulary = x.shape[-1]
    if vocabulary <= 50000 or vocabulary % 64 == 0:
        return functional.softmax(x, dim=-1)
    padded = functional.pad(x, (0, -vocabulary % 64))
    return functional.softmax(padded, dim=-1)[:, :vocabulary].contiguous()


def demonstrate():
    x = torch.randn(1, 50257).half() - 9
    return softmax(x), torch.softmax(x.double(), -1)
