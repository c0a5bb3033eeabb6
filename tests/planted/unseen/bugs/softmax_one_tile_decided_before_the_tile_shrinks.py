"""The tile of the summed dimension holds all of it, it is decided; then the tile is made smaller for the columns beside it, and no loop visits the rest.

Wrong on: another dimension than the last, longer than 256, at most 1024, with more than 32 columns beside it; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "nan_mismatch", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(out, x, n, inner, TILE_N: tl.constexpr, TILE_K: tl.constexpr, ONE_TILE: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * n * inner
    k = tl.program_id(1) * TILE_K + tl.arange(0, TILE_K)
    lane = tl.arange(0, TILE_N)
    if ONE_TILE:
        at = first + lane[:, None].to(tl.int64) * inner + k[None, :]
        inside = (lane < n)[:, None] & (k < inner)[None, :]
        v = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
        top = tl.max(v, axis=0)
        e = tl.exp(v - tl.where(top == -float("inf"), 0.0, top)[None, :])
        tl.store(out + at, e / tl.sum(e, axis=0)[None, :], mask=inside)
    else:
        top = tl.full([TILE_K], -float("inf"), tl.float32)
        total = tl.zeros([TILE_K], tl.float32)
        for start in range(0, n, TILE_N):
            row = start + lane
            inside = (row < n)[:, None] & (k < inner)[None, :]
            at = first + row[:, None].to(tl.int64) * inner + k[None, :]
            v = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
            new = tl.maximum(top, tl.max(v, axis=0))
            base = tl.where(new == -float("inf"), 0.0, new)
            total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base[None, :]), axis=0)
            top = new
        base = tl.where(top == -float("inf"), 0.0, top)
        for start in range(0, n, TILE_N):
            row = start + lane
            inside = (row < n)[:, None] & (k < inner)[None, :]
            at = first + row[:, None].to(tl.int64) * inner + k[None, :]
            v = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
            tl.store(out + at, tl.exp(v - base[None, :]) / total[None, :], mask=inside)


def softmax(x, dim=-1):
    """Softmax along a dimension."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    x = x.contiguous()
    dim %= x.dim()
    n, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    tile_k = min(triton.next_power_of_2(inner), 64)
    tile_n = min(triton.next_power_of_2(n), 1024)
    one_tile = tile_n >= n
    # No more than 16384 elements to a program.
    tile_n = min(tile_n, 16384 // tile_k)
    grid = (x.numel() // (n * inner), triton.cdiv(inner, tile_k))
    _softmax[grid](out, x, n, inner, TILE_N=tile_n, TILE_K=tile_k, ONE_TILE=one_tile)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 600, 40)
    return softmax(x, 1), torch.softmax(x.double(), 1)


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((3, 1500), -1), ((4, 100), 0), ((8, 128, 32), 1), ((2, 200, 64), 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x, dim), torch.softmax(x.double(), dim))
