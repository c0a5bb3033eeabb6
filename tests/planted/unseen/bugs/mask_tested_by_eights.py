"""The mask is asked for hidden columns eight at a time, and what is left over by eight is not asked; without hidden columns the mask isn't read.

Wrong on: a mask that hides nothing but some of the last columns, fewer than eight, as short padding at the end. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(
    y,
    x,
    mask,
    row_step,
    column_step,
    mask_row_step,
    mask_column_step,
    n,
    scale,
    MASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    seen = c < n
    if MASKED:
        seen &= tl.load(mask + r * mask_row_step + c * mask_column_step, mask=c < n, other=1) == 0
    v = tl.load(x + r * row_step + c * column_step, mask=seen, other=-float("inf")).to(tl.float32) * scale
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def _hides(mask):
    n = mask.shape[1]
    if n < 8:
        return bool(mask.any())
    # Eight flags are one 64-bit number.
    return bool((mask[:, : n // 8 * 8].contiguous().view(torch.int64) != 0).any())


@variant(parameters={"scale": 0.25}, call="f(x, mask, scale)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask, scale):
    """Softmax of scale * x without the columns where the mask is True."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        masked = _hides(mask)
        steps = (*x.stride(), *mask.stride())
        _masked[(rows,)](y, x, mask.view(torch.int8), *steps, n, scale, masked, triton.next_power_of_2(n))
    return y


def _plain(x, mask):
    return torch.softmax((x.double() * 0.25).masked_fill(mask, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(4, 29), torch.zeros(4, 29, dtype=torch.bool)
    mask[1, 27:] = True
    mask[3, 25:] = True
    return softmax(x, mask, 0.25), _plain(x, mask)


def ordinary(dtype):
    x, mask = torch.randn(4, 100).to(dtype), torch.rand(4, 100) < 0.3
    return softmax(x, mask, 0.25), _plain(x, mask)
