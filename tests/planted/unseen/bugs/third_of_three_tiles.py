"""More than eight tiles are taken four at a time; of three left over, the first is added twice and the third never."""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def load_tile(p, index, step, n, T: tl.constexpr):
    k = index * T + tl.arange(0, T)
    return tl.load(p + k.to(tl.int64) * step, mask=k < n, other=-float("inf")).to(tl.float32)


@triton.jit
def unrolled(out, inp, rs, cs, n, T: tl.constexpr, UNROLL: tl.constexpr):
    p = inp + tl.program_id(0).to(tl.int64) * rs
    tiles = tl.cdiv(n, T)
    top = -float("inf")
    for t in range(tiles):
        top = tl.maximum(top, tl.max(load_tile(p, t, cs, n, T), 0))
    acc = 0.0
    if UNROLL:
        whole = tiles // 4 * 4
        for t in range(0, whole, 4):
            a = tl.sum(tl.exp(load_tile(p, t, cs, n, T) - top), 0)
            b = tl.sum(tl.exp(load_tile(p, t + 1, cs, n, T) - top), 0)
            c = tl.sum(tl.exp(load_tile(p, t + 2, cs, n, T) - top), 0)
            d = tl.sum(tl.exp(load_tile(p, t + 3, cs, n, T) - top), 0)
            acc += (a + b) + (c + d)
        if tiles % 4 >= 2:
            acc += tl.sum(tl.exp(load_tile(p, whole, cs, n, T) - top), 0)
            acc += tl.sum(tl.exp(load_tile(p, whole + 1, cs, n, T) - top), 0)
        if tiles % 2 == 1:
            acc += tl.sum(tl.exp(load_tile(p, whole, cs, n, T) - top), 0)
    else:
        for t in range(tiles):
            acc += tl.sum(tl.exp(load_tile(p, t, cs, n, T) - top), 0)
    for t in range(tiles):
        k = t * T + tl.arange(0, T)
        y = tl.exp(load_tile(p, t, cs, n, T) - top) / acc
        tl.store(out + tl.program_id(0).to(tl.int64) * n + k, y, mask=k < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        n = x.shape[1]
        unrolled[(x.shape[0],)](y, x, x.stride(0), x.stride(1), n, 512, n > 8 * 512)
    return y


def demonstrate():
    x = torch.randn(2, 5300)
    return softmax(x), torch.softmax(x.double(), -1)
