"""Right: each row looks at its own mask; where nothing but a tail is hidden, which the last visible and the first hidden column tell, the row is read up to its length, without the mask."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(y, x, mask, row_step, column_step, mask_row_step, mask_column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    mask += r * mask_row_step
    last = tl.full([], -1, tl.int64)
    first = tl.zeros([], tl.int64) + n
    for at in range(0, n, WIDTH):
        c = at + lane
        hidden = tl.load(mask + c * mask_column_step, mask=c < n, other=1) != 0
        last = tl.maximum(last, tl.max(tl.where(hidden, -1, c), 0))
        first = tl.minimum(first, tl.min(tl.where(hidden, c, n), 0))
    is_tail = last < first
    # The row ends behind its last visible column in any case.
    end = last + 1
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, end, WIDTH):
        c = at + lane
        hidden = tl.load(mask + c * mask_column_step, mask=(c < end) & (is_tail == 0), other=0) != 0
        v = tl.load(x + c * column_step, mask=(c < end) & (hidden == 0), other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        hidden = tl.load(mask + c * mask_column_step, mask=(c < end) & (is_tail == 0), other=0) != 0
        v = tl.load(x + c * column_step, mask=(c < end) & (hidden == 0), other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


@variant(call="f(x, mask)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        steps = (*x.stride(), *mask.stride())
        _masked[(rows,)](y, x, mask.view(torch.uint8), *steps, n, min(512, triton.next_power_of_2(n)))
    return y
