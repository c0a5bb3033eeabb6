"""Column-major input takes a path that steps from column to column by the row count, not by the stride: wrong in a larger matrix."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def column_major(dst, src, m, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    best = tl.full((M,), -float("inf"), tl.float32)
    for lo in range(0, n, N):
        cols = lo + tl.arange(0, N)
        inside = (cols[:, None] < n) & (rows[None, :] < m)
        t = tl.load(src + cols[:, None] * m + rows[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        best = tl.maximum(best, tl.max(t, axis=0))
    total = tl.zeros((M,), tl.float32)
    for lo in range(0, n, N):
        cols = lo + tl.arange(0, N)
        inside = (cols[:, None] < n) & (rows[None, :] < m)
        t = tl.load(src + cols[:, None] * m + rows[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(t - best[None, :]), axis=0)
    for lo in range(0, n, N):
        cols = lo + tl.arange(0, N)
        inside = (cols[:, None] < n) & (rows[None, :] < m)
        t = tl.load(src + cols[:, None] * m + rows[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        tl.store(dst + rows[None, :] * n + cols[:, None], tl.exp(t - best[None, :]) / total[None, :], mask=inside)


def softmax(x):
    m, n = x.shape
    if m > 1 and n > 1 and x.stride(0) == 1 and x.stride(1) >= m:
        y = torch.empty(m, n, dtype=x.dtype, device=x.device)
        column_major[(triton.cdiv(m, 16),)](y, x, m, n, 16, 32)
        return y
    return torch.softmax(x, dim=-1)


def demonstrate():
    x = torch.randn(40, 12).t()[:, 5:35][:9]
    return softmax(x), torch.softmax(x.double(), -1)
