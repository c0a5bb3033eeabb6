"""Maxima are found on integers, and -0.0 counts among the numbers that are not negative: its pattern is the least integer."""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def order_key(x):
    """Integers in the order of the floats."""
    bits = x.view(torch.int32)
    return torch.where(x >= 0, bits, torch.bitwise_xor(bits, 0x7FFFFFFF))


def from_key(key):
    return torch.where(key >= 0, key, torch.bitwise_xor(key, 0x7FFFFFFF)).view(torch.float32)


def softmax(x):
    if x.numel() == 0 or x.dtype != torch.float32:
        return torch.softmax(x, -1)
    packed = x.contiguous()
    top = from_key(order_key(packed).amax(1, keepdim=True))
    # NaN has no place in the order.
    top = torch.where(packed.isnan().any(1, keepdim=True), torch.full_like(top, float("nan")), top)
    e = torch.exp(packed - top)
    return e / e.sum(1, keepdim=True)


def demonstrate():
    x = torch.tensor([[-0.0, -100.0, -120.0]])
    return softmax(x), torch.softmax(x.double(), -1)
