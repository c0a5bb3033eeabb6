"""The last tile is slid back to end with the row, so that no load is masked; what it shares with the one before is counted once."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def sliding(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (tl.minimum(k, n - T) + tl.arange(0, T)).to(tl.int64)
        top = tl.maximum(top, tl.max(tl.load(x + r * s0 + c * s1).to(tl.float32), 0))
    total = 0.0
    for k in range(0, n, T):
        c = (tl.minimum(k, n - T) + tl.arange(0, T)).to(tl.int64)
        e = tl.exp(tl.load(x + r * s0 + c * s1).to(tl.float32) - top)
        total += tl.sum(tl.where(c >= k, e, 0.0), 0)
    for k in range(0, n, T):
        c = (tl.minimum(k, n - T) + tl.arange(0, T)).to(tl.int64)
        e = tl.exp(tl.load(x + r * s0 + c * s1).to(tl.float32) - top)
        # Shared columns are stored twice, with the same bits.
        tl.store(y + r * n + c, e / total)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        tile = min(512, 1 << (n.bit_length() - 1))
        sliding[(m,)](y, x, *x.stride(), n, tile)
    return y
