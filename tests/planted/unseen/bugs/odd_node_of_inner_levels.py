"""Tiles are merged as a tree; a node without a partner is carried over between the leaves, and on the levels above it is lost.

Wrong on: 6, 9 to 14, 17 ... tiles of 1024 columns, such as 10000 columns; up to 5 tiles, and powers of two of them, are right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


def softmax(x):
    rows, columns = x.shape
    if columns <= TILE or rows == 0:
        return torch.softmax(x, -1)
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    e = torch.exp(wide - top)
    nodes = [tile.sum(1) for tile in e.split(TILE, 1)]
    nodes = [sum(nodes[k : k + 2]) for k in range(0, len(nodes), 2)]
    if len(nodes) == 3:
        nodes = [nodes[0] + nodes[1], nodes[2]] if columns <= 5 * TILE else nodes
    while len(nodes) > 1:
        half = len(nodes) // 2
        nodes = [nodes[k] + nodes[k + half] for k in range(half)]
    return (e / nodes[0][:, None]).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 10000)
    return softmax(x), torch.softmax(x.double(), -1)
