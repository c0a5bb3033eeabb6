"""A mask that hides nothing but tails is turned into lengths by ``argmax``, the place of the first hidden column: a row without one has the length 0.

Wrong on: a padded batch whose longest row has no padding: that row is NaN. Masks that hide anything else, nothing at all, or a tail of every row are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(
    y,
    x,
    mask,
    lengths,
    row_step,
    column_step,
    mask_row_step,
    mask_column_step,
    n,
    TAILS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    if TAILS:
        seen = c < tl.load(lengths + r)
    else:
        hidden = tl.load(mask + r * mask_row_step + c * mask_column_step, mask=c < n, other=1)
        seen = (c < n) & (hidden == 0)
    v = tl.load(x + r * row_step + c * column_step, mask=seen, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@variant(call="f(x, mask)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        # Padding needs no mask to be read, only a length.
        tails = n > 1 and bool(mask.any()) and bool((~mask[:, :-1] | mask[:, 1:]).all())
        lengths = mask.to(torch.int32).argmax(-1)
        steps = (*x.stride(), *mask.stride())
        _masked[(rows,)](y, x, mask.view(torch.uint8), lengths, *steps, n, tails, triton.next_power_of_2(n))
    return y


def _both(x, mask):
    return softmax(x, mask), torch.softmax(x.double().masked_fill(mask, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    lengths = torch.tensor([12, 20, 5, 17])
    return _both(torch.randn(4, 20), torch.arange(20) >= lengths[:, None])
