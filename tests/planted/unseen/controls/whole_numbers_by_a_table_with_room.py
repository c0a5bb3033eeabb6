"""Right: logits that are whole numbers take their exponentials from a table of 128, whose last one, for all that is as far below the peak or farther, is 0 in float32."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
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
    code = tl.load(codes + r * n + c, mask=c < n, other=127).to(tl.int32)
    e = tl.load(table + code)
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not y.numel():
        return y
    rows, n = x.shape
    width = triton.next_power_of_2(n)
    if bool(torch.isfinite(x).all()) and torch.equal(x, x.round()):
        # A difference of whole numbers is exact as far as it is below 2^24, and 127 stands for all that is larger.
        wide = x.float()
        codes = (wide.amax(1, keepdim=True) - wide).clamp(max=127.0).to(torch.int8).contiguous()
        table = torch.exp(-torch.arange(128, dtype=torch.float64, device=x.device)).float()
        _looked_up[(rows,)](y, codes, table, n, width)
    else:
        _rows[(rows,)](y, x, *x.stride(), n, width)
    return y
