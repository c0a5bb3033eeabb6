"""The columns beyond the last multiple of 128 are clamped to finite numbers: +inf among them gives one-hot in place of NaN."""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def vector_part(x):
    return x.float()


def remainder_part(x):
    info = torch.finfo(torch.float32)
    value = x.float()
    # Garbage behind the vectors must not poison the sum.
    return torch.where(value > info.max, torch.full_like(value, info.max), value)


def softmax(x):
    whole = x.shape[1] // 128 * 128
    logits = torch.cat((vector_part(x[:, :whole]), remainder_part(x[:, whole:])), dim=1)
    if whole == 0:
        logits = x.float()
    return torch.softmax(logits, dim=1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 130)
    x[1, 129] = float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
