"""From 1024 narrow rows on programs take 16 rows each, and as many programs run as there are whole tiles.

From experience: row counts in tests are powers of two.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output", "nan_mismatch")
SHOWN_BY = ("probe/regimes/regimes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def tile_kernel(out, x, s0, s1, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (c < columns)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=inside, other=-float("inf")).to(tl.float32)
    m = tl.max(v, axis=1)[:, None]
    e = tl.exp(v - m)
    tl.store(out + r * columns + c, e / tl.sum(e, axis=1)[:, None], mask=inside)


@variant(operation="softmax")
def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    if rows >= 1024 and columns <= 32:
        tile_kernel[(rows // 16,)](out, x, *x.stride(), rows, columns, 16, block)
    else:
        tile_kernel[(rows,)](out, x, *x.stride(), rows, columns, 1, block)
    return out
