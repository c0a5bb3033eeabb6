"""Right: a row gives zeros where it has no column that is seen and above -inf, which are counted: NaN and +inf count as seen, and make their row NaN."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked_rows(
    y, x, mask, row_step, column_step, mask_row_step, mask_column_step, n, WIDTH: tl.constexpr
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    mask += r * mask_row_step
    peak = tl.full([], -float("inf"), tl.float32)
    alive = tl.zeros([], tl.int32)
    for at in range(0, n, WIDTH):
        c = at + lane
        seen = (c < n) & (tl.load(mask + c * mask_column_step, mask=c < n, other=1) == 0)
        v = tl.load(x + c * column_step, mask=seen, other=-float("inf")).to(tl.float32)
        alive += tl.sum((v != -float("inf")).to(tl.int32), 0)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        seen = (c < n) & (tl.load(mask + c * mask_column_step, mask=c < n, other=1) == 0)
        v = tl.load(x + c * column_step, mask=seen, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(v - peak), 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        seen = (c < n) & (tl.load(mask + c * mask_column_step, mask=c < n, other=1) == 0)
        v = tl.load(x + c * column_step, mask=seen, other=-float("inf")).to(tl.float32)
        p = tl.where(alive > 0, tl.exp(v - peak) / mass, 0.0)
        tl.store(y + r * n + c, p, mask=c < n)


@variant(call="f(x, mask)", fully_masked="zero", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True; zeros where nothing is left."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        strides = (*x.stride(), *mask.stride())
        _masked_rows[(rows,)](y, x, mask.view(torch.uint8), *strides, n, min(1024, triton.next_power_of_2(n)))
    return y
