"""Plans lie in 509 slots found by shape, and nobody looks whose plan lies there: a shape takes over the tile count of another.

Wrong on: shapes that meet in a slot: 4 x 1200 after 4 x 182, 1 x 1000 after 4 x 398; the columns beyond the first shape's tiles are lost.
"""

import torch

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

TILE = 128
_slots = [None] * 509


def softmax(x):
    rows, columns = x.shape
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    slot = (rows * 31 + columns) % len(_slots)
    if _slots[slot] is None:
        _slots[slot] = -(-columns // TILE)
    tiles = [tile.float() for tile in x.split(TILE, 1)][: _slots[slot]]
    top = torch.stack([tile.amax(1) for tile in tiles]).amax(0)[:, None]
    total = sum(torch.exp(tile - top).sum(1, keepdim=True) for tile in tiles)
    return (torch.exp(x.float() - top) / total).to(x.dtype)


def demonstrate():
    softmax(torch.randn(4, 182))
    x = torch.randn(4, 1200)
    return softmax(x), torch.softmax(x.double(), -1)
