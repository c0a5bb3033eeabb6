"""exp is a polynomial in float64 times a power of two put together from its exponent, which ends long before it could wrap."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LOG_2 = 0.6931471805599453


def exponential(d):
    """exp of float64 numbers up to 0, -inf and NaN."""
    clamped = d.clamp(min=-600.0)
    whole = torch.floor(clamped / LOG_2 + 0.5)
    rest = clamped - whole * LOG_2
    polynomial = torch.ones_like(rest)
    for k in range(13, 0, -1):
        polynomial = 1.0 + polynomial * rest / k
    exponent = torch.where(whole.isnan(), torch.zeros_like(whole), whole).long() + 1023
    e = polynomial * (exponent << 52).view(torch.float64)
    return torch.where(d < -600.0, torch.zeros_like(e), e)


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.detach().double()
    e = exponential(wide - wide.amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)
