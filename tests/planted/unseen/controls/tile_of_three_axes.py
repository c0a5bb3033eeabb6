"""A tile has three axes, rows, groups and lanes: groups are reduced first, and columns lie across groups, not along lanes."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cubes(y, x, s0, s1, m, n, R: tl.constexpr, G: tl.constexpr, L: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None, None]
    c = (tl.arange(0, G)[None, :, None] + tl.arange(0, L)[None, None, :] * G).to(tl.int64)
    inside = (r < m) & (c < n)
    # Rows that don't exist are zeros, so that they are no 0 / 0.
    v = tl.load(x + r * s0 + c * s1, mask=inside, other=-float("inf")).to(tl.float32)
    v = tl.where(r < m, v, 0.0)
    top = tl.max(tl.max(v, 1), 1)[:, None, None]
    e = tl.exp(v - top)
    total = tl.sum(tl.sum(e, 1), 1)[:, None, None]
    tl.store(y + r * n + c, e / total, mask=inside)


def softmax(x):
    m, n = x.shape
    if x.numel() == 0 or n > 8192:
        return torch.softmax(x.detach(), -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    lanes = max(1, triton.next_power_of_2(n) // 16)
    rows = max(1, min(16, 4096 // (16 * lanes)))
    cubes[(triton.cdiv(m, rows),)](y, x, *x.stride(), m, n, rows, 16, lanes)
    return y
