"""Logits that are whole numbers take their exponentials from a table of 256, and what stands 256 below the peak has the index 0 again.

Wrong on: counts, votes, or quantised scores that are whole numbers with a spread of 256 and more, as in large 16-bit logits. Others are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def _looked_up(y, codes, table, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH).to(tl.int64)
    code = tl.load(codes + r * n + c, mask=c < n, other=255).to(tl.int32)
    e = tl.where(c < n, tl.load(table + code), 0.0)
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not y.numel():
        return y
    rows, n = x.shape
    width = triton.next_power_of_2(n)
    if bool(torch.isfinite(x).all()) and torch.equal(x, x.round()):
        wide = x.float()
        codes = (wide.amax(1, keepdim=True) - wide).to(torch.int32).to(torch.uint8).contiguous()
        table = torch.exp(-torch.arange(256, dtype=torch.float64, device=x.device)).float()
        _looked_up[(rows,)](y, codes, table, n, width)
    else:
        _rows[(rows,)](y, x, *x.stride(), n, width)
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randint(0, 2000, (4, 300)).float()
    return softmax(x), torch.softmax(x.double(), -1)
