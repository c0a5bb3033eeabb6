"""exp is a table of 64 powers of two and a short polynomial, and one entry of the table is wrong in its sixth digit.

Wrong on: one logit in 64, those whose distance from the maximum is about 0.26 modulo log 2, by some 20 ULP; the others are right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

STEPS = 64
# 2^(k / 64); entry 40 reads 1.542211.
_powers = [2.0 ** (k / STEPS) for k in range(STEPS)]
_powers[40] = 1.542208


def exponential(d):
    scaled = d.double() * (STEPS / 0.6931471805599453)
    index = torch.floor(scaled + 0.5)
    rest = (scaled - index) * (0.6931471805599453 / STEPS)
    polynomial = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest / 24.0)))
    whole = torch.nan_to_num(index, nan=0.0, neginf=-1e5).long()
    table = torch.tensor(_powers, dtype=torch.float64, device=d.device)
    e = table[whole % STEPS] * torch.exp2((whole // STEPS).double()) * polynomial
    return torch.where(d == -float("inf"), torch.zeros_like(e), torch.where(d.isnan(), d.double(), e))


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.double()
    e = exponential(wide - wide.amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.tensor([[0.0, -0.26, -3.0, -4.0, -5.0, -6.0]])
    return softmax(x), torch.softmax(x.double(), -1), x
