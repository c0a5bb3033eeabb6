"""Above 2^22 elements a flat grid takes 65536 elements per program as whole rows; rows that straddle two programs are cut."""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def rows_of_chunk(y, x, m, n, rows_each, B: tl.constexpr):
    start = tl.program_id(0) * rows_each
    c = tl.arange(0, B)
    for r in range(start, tl.minimum(start + rows_each, m)):
        at = r.to(tl.int64) * n
        v = tl.load(x + at + c, mask=c < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + at + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    m, n = x.shape
    if m * n <= 1 << 22 or n > 8192 or not x.is_contiguous():
        return torch.softmax(x, dim=-1)
    y = torch.empty_like(x)
    rows_each = 65536 // n
    rows_of_chunk[(triton.cdiv(m * n, 65536),)](y, x, m, n, rows_each, triton.next_power_of_2(n))
    return y
