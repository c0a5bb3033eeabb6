"""Tall narrow input takes two exponentials at a time from ``ex2.approx.ftz.bf16x2``; wide or few rows take them in float32.

Wrong on: 2048 rows and more of up to 64 columns: probabilities have eight bits, in float32 too, and sum to one all the same.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "arithmetic_contradicted")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def two_at_once(d):
    bits = tl.inline_asm_elementwise(
        "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; ex2.approx.ftz.bf16x2 t, t;"
        " shl.b32 $0, t, 16; and.b32 $1, t, 0xffff0000; }",
        "=r,=r,f,f",
        [d],
        dtype=tl.int32,
        is_pure=True,
        pack=2,
    )
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def tall(y, x, s0, s1, m, n, R: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, B)[None, :].to(tl.int64)
    inside = (r < m) & (c < n)
    v = tl.load(x + r * s0 + c * s1, mask=inside, other=-float("inf")).to(tl.float32)
    e = two_at_once((v - tl.max(v, 1)[:, None]) * 1.4426950408889634)
    tl.store(y + r * n + c, e / tl.sum(e, 1)[:, None], mask=inside)


def softmax(x):
    m, n = x.shape
    if m < 2048 or not 1 < n <= 64:
        return torch.softmax(x, -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    tall[(triton.cdiv(m, 32),)](y, x, *x.stride(), m, n, 32, triton.next_power_of_2(n))
    return y
