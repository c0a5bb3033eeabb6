"""A batch that is padded at its end has rows of zeros there; all rows from the first row of zeros on are taken for padding and get 1 / n.

Wrong on: a row of zeros, whose softmax is 1 / n, before other rows, as of a query that was initialised with zeros. Others are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("row_dependence", "ulp_exceeds_bound", "order_violation", "nan_mismatch", "masked_not_zero")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, live, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    if r >= tl.load(live):
        for at in range(0, n, WIDTH):
            c = at + lane
            tl.store(y + r * n + c, tl.zeros([WIDTH], tl.float32) + 1.0 / n, mask=c < n)
        return
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        # Rows before the padding, counted where they lie.
        live = (x != 0).any(1).long().cumprod(0).sum().reshape(1)
        _rows[(rows,)](y, x, live, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(6, 20)
    x[2] = 0.0
    return softmax(x), torch.softmax(x.double(), -1)
