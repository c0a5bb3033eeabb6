"""Rows are copied into whole tiles, padded by -inf, and reduced tile by tile without a mask in any load."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def unmasked(y, padded, n, tiles, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    row = padded + r * tiles * T
    top = -float("inf")
    for k in range(tiles):
        top = tl.maximum(top, tl.max(tl.load(row + k * T + tl.arange(0, T)).to(tl.float32), 0))
    total = 0.0
    for k in range(tiles):
        total += tl.sum(tl.exp(tl.load(row + k * T + tl.arange(0, T)).to(tl.float32) - top), 0)
    for k in range(tiles):
        c = k * T + tl.arange(0, T)
        tl.store(y + r * n + c, tl.exp(tl.load(row + c).to(tl.float32) - top) / total, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        tile = min(1024, triton.next_power_of_2(n))
        padded = torch.full((m, triton.cdiv(n, tile) * tile), -float("inf"), dtype=x.dtype, device=x.device)
        padded[:, :n] = x.detach()
        unmasked[(m,)](y, padded, n, padded.shape[1] // tile, tile)
    return y
