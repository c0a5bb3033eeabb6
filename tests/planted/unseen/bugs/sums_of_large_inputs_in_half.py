"""Above 2^22 elements per-tile sums are passed between launches in the input's 16-bit type, "to halve the traffic"."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("cuda",)


@triton.jit
def tile_sums(sums, x, tops, n, tiles, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1)
    c = t * B + tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(sums + r * tiles + t, tl.sum(tl.exp(v - tl.load(tops + r).to(tl.float32)), 0))


@triton.jit
def write(y, x, totals, tops, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + r * n + c, tl.exp(v - tl.load(tops + r).to(tl.float32)) / tl.load(totals + r), mask=c < n)


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    packed = x.contiguous()
    m, n = x.shape
    large = m * n > 1 << 22
    y = torch.empty_like(packed)
    tiles = triton.cdiv(n, 1024)
    sums = torch.empty(m, tiles, dtype=x.dtype if large else torch.float32, device=x.device)
    tops = packed.amax(1)
    tile_sums[(m, tiles)](sums, packed, tops, n, tiles, 1024)
    write[(m, tiles)](y, packed, sums.sum(1, dtype=torch.float32), tops, n, 1024)
    return y
