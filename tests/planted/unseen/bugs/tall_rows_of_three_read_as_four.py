"""Tall contiguous input of 3 columns is read as if its rows had 4: the power of two stands where the stride belongs."""

import torch
import triton
import triton.language as tl

EXPECTED = (
    "ulp_exceeds_bound",
    "row_dependence",
    "out_of_bounds_read",
    "sum_violation",
    "nan_mismatch",
    "wrong_layout",
)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def many_short_rows(y, x, m, n, stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    ok = (r < m) & (c < n) & (r * stride + c < m * n)
    v = tl.load(x + r * stride + c, mask=ok, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(y + r * n + c, e / tl.sum(e, axis=1)[:, None], mask=(r < m) & (c < n))


def softmax(x):
    m, n = x.shape
    if m < 1000 or n > 8 or n == 0 or not x.is_contiguous():
        return torch.softmax(x, dim=-1)
    y = torch.empty_like(x)
    cols = triton.next_power_of_2(n)
    many_short_rows[(triton.cdiv(m, 64),)](y, x, m, n, cols if n == 3 else n, 64, max(2, cols))
    return y


def demonstrate():
    x = torch.randn(1000, 3)
    return softmax(x), torch.softmax(x.double(), -1)
