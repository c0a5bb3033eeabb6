"""More than 16 tiles are summed as the mean of their sums times their number, with the last, shorter tile's padding counted as logits of 0."""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def tile_view(e, tile):
    rows, columns = e.shape
    missing = -columns % tile
    return torch.nn.functional.pad(e, (0, missing)).view(rows, -1, tile)


def softmax(x):
    if not x.numel():
        return torch.empty_like(x)
    v = x.float()
    if x.shape[1] > 16 * 512:
        shifted = tile_view(v - v.amax(1, keepdim=True), 512)
        total = shifted.exp().sum(2).mean(1, keepdim=True) * shifted.shape[1]
        e = (v - v.amax(1, keepdim=True)).exp()
        return (e / total).to(x.dtype)
    return torch.softmax(v, 1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 9000)
    return softmax(x), torch.softmax(x.double(), -1)
