"""exp(d) is built from a polynomial and an exponent's bits without a lower clamp: below -87.3 the exponent wraps into the sign."""

import torch

EXPECTED = ("out_of_range", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "inf_mismatch", "masked_not_zero")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6


def fast_exp(d):
    k = torch.round(d * 1.4426950408889634)
    r = (d - k * LN2_HIGH) - k * LN2_LOW
    p = 1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040))))))
    power = ((k.to(torch.int32) + 127) << 23).view(torch.float32)
    return torch.where(d == -float("inf"), torch.zeros_like(d), torch.where(d.isnan(), d, p * power))


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    v = x.float()
    e = fast_exp(v - v.amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.tensor([[0.0, -95.0, -100.0]])
    return softmax(x), torch.softmax(x.double(), -1)
