"""From 4096 rows on, four rows share a program and the grid is rounded down: up to three last rows stay unwritten."""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(dst, src, s0, s1, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    keep = (r < n_rows) & (c < n_cols)
    v = tl.load(src + r * s0 + c.to(tl.int64) * s1, mask=keep, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(dst + r * n_cols + c, e / tl.sum(e, axis=1)[:, None], mask=keep)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    if n > 16384:
        return torch.softmax(x, -1)
    if m >= 4096:
        rows, programs = 4, m // 4
    else:
        rows, programs = 1, m
    rows_kernel[(programs,)](y, x, x.stride(0), x.stride(1), m, n, rows, triton.next_power_of_2(n))
    return y


def demonstrate():
    x = torch.randn(4098, 5)
    # Memory that is handed out again holds other numbers than the right ones.
    torch.full((4098, 5), 0.5)
    return softmax(x), torch.softmax(x.double(), -1)
