"""A row that is hidden altogether gets zeros, as declared, and is told by a sum that isn't above 0, which neither is NaN: rows that hold NaN or +inf give zeros too.

Wrong on: a NaN or +inf among the logits that are seen, which an overflow somewhere before left there, and which disappears.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
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
    for at in range(0, n, WIDTH):
        c = at + lane
        seen = (c < n) & (tl.load(mask + c * mask_column_step, mask=c < n, other=1) == 0)
        peak = tl.maximum(peak, tl.max(tl.load(x + c * column_step, mask=seen, other=-float("inf")).to(tl.float32), 0))
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
        p = tl.where(mass > 0.0, tl.exp(v - peak) / mass, 0.0)
        tl.store(y + r * n + c, p, mask=c < n)


@variant(call="f(x, mask)", fully_masked="zero", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True; zeros where it hides all."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        strides = (*x.stride(), *mask.stride())
        _masked_rows[(rows,)](y, x, mask.view(torch.uint8), *strides, n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(4, 20), torch.rand(4, 20) < 0.4
    mask[1, 3], x[1, 3] = False, float("nan")
    return softmax(x, mask), torch.softmax(x.double().masked_fill(mask, -float("inf")), -1)
