"""The decode path for one or two rows merges eight partial sums, as many as 32768 columns have; later parts are left out."""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

SLOTS = 8


def flash_decode(x):
    pieces = x.float().split(4096, dim=1)
    maxima = torch.stack([piece.amax(1) for piece in pieces], 1)
    top = maxima.amax(1, keepdim=True)
    sums = torch.zeros(x.shape[0], max(SLOTS, len(pieces)), device=x.device)
    for slot, piece in enumerate(pieces):
        sums[:, slot] = torch.exp(piece - top).sum(1)
    denominator = sums[:, :SLOTS].sum(1, keepdim=True)
    return (torch.exp(x.float() - top) / denominator).to(x.dtype)


def softmax(x):
    if 0 < x.shape[0] <= 2 and x.shape[1] >= 32000:
        return flash_decode(x)
    return torch.softmax(x.float(), 1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 50257)
    return softmax(x), torch.softmax(x.double(), -1)
