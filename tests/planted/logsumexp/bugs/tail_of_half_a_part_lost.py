"""Wide rows go in parts of 128 columns and two of 64 at the end: a rest of exactly 64 is taken for none.

From experience: a vocabulary of 30528 leaves such a rest.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("probe/regimes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def add(m, s, v):
    new = tl.maximum(m, tl.max(v, axis=0))
    safe = tl.where(new == -float("inf"), 0.0, new)
    return new, s * tl.exp(m - safe) + tl.sum(tl.exp(v - safe), axis=0)


@triton.jit
def wide_kernel(out, x, s0, s1, columns):
    row = tl.program_id(0).to(tl.int64)
    m = -float("inf")
    s = 0.0
    full = columns // 128 * 128
    for start in range(0, full, 128):
        c = start + tl.arange(0, 128)
        m, s = add(m, s, tl.load(x + row * s0 + c.to(tl.int64) * s1).to(tl.float32))
    rest = columns - full
    t = full + tl.arange(0, 64)
    if rest > 64:
        m, s = add(m, s, tl.load(x + row * s0 + t.to(tl.int64) * s1).to(tl.float32))
        t += 64
    odd = rest & 63
    if odd > 0:
        inside = tl.arange(0, 64) < odd
        m, s = add(m, s, tl.load(x + row * s0 + t.to(tl.int64) * s1, mask=inside, other=-float("inf")).to(tl.float32))
    tl.store(out + row, m + tl.log(s))


@triton.jit
def kernel(out, x, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    m, s = add(-float("inf"), 0.0, v)
    tl.store(out + row, m + tl.log(s))


@variant(operation="logsumexp")
def logsumexp(x):
    rows, columns = x.shape
    out = torch.full((rows,), -float("inf"), dtype=x.dtype, device=x.device)
    if x.numel():
        if columns > 2048:
            wide_kernel[(rows,)](out, x, *x.stride(), columns)
        else:
            kernel[(rows,)](out, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return out
