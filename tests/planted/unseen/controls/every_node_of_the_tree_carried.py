"""Maxima and sums of tiles are merged in pairs as a tree; a node without a partner goes up as it is, on every level."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

TILE = 256


def leaf(tile):
    wide = tile.detach().float()
    top = wide.amax(1, keepdim=True)
    return top, torch.exp(wide - shift(top)).sum(1, keepdim=True)


def shift(top):
    """The number that may be subtracted from logits up to ``top``, also where all are masked."""
    return torch.where(top == -float("inf"), torch.zeros_like(top), top)


def merge(a, b):
    top = torch.maximum(a[0], b[0])
    return top, a[1] * torch.exp(a[0] - shift(top)) + b[1] * torch.exp(b[0] - shift(top))


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    nodes = [leaf(tile) for tile in x.split(TILE, 1)]
    while len(nodes) > 1:
        pairs = [merge(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = pairs + nodes[2 * len(pairs) :]
    top, total = nodes[0]
    return (torch.exp(x.detach().float() - top) / total).to(x.dtype)
