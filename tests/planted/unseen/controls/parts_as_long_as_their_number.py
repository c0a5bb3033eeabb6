"""A row is laid out as a square, padded with masks, whose rows are reduced before its columns; its side is the root rounded up."""

from math import isqrt

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    columns = x.shape[1]
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    side = isqrt(columns - 1) + 1
    wide = x.detach().float()
    square = torch.nn.functional.pad(wide, (0, side * side - columns), value=-float("inf")).unflatten(1, (side, side))
    top = square.amax(2).amax(1)[:, None]
    total = torch.exp(square - top[..., None]).sum(2).sum(1)[:, None]
    return (torch.exp(wide - top) / total).to(x.dtype)
