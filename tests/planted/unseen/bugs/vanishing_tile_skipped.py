"""Tiles more than 104 below the running maximum are skipped; the tile's maximum doesn't see a NaN, which then disappears."""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def tile_peak(tile):
    """The largest number of each row, without NaN, as hardware maxima give it."""
    return torch.where(tile.isnan(), torch.full_like(tile, -float("inf")), tile).amax(1)


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    tiles = x.float().split(256, dim=1)
    peaks = torch.stack([tile_peak(tile) for tile in tiles], dim=1)
    top = peaks.amax(1, keepdim=True)
    shown = []
    for index, tile in enumerate(tiles):
        far = (peaks[:, index] < top[:, 0] - 104.0)[:, None]
        shown.append(torch.where(far, torch.zeros_like(tile), torch.exp(tile - top)))
    e = torch.cat(shown, 1)
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 600)
    x[0, 256:512] -= 300.0
    x[0, 300] = float("nan")
    return softmax(x), torch.softmax(x.double(), -1)
