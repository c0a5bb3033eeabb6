"""Ignored rows have a loss of 0, so the mean is taken over the losses that aren't 0; a row whose target is certain has a loss of exactly 0 as well.

Wrong on: rows whose target's logit is more than about 17 above all others, in float32 or after rounding to 16 bits: the mean of the others is too large, and NaN where there are none. Right for logits of randn.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED = -100


@triton.jit
def _rows(losses, x, target, row_step, column_step, target_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    place = tl.load(target + r * target_step)
    asked = (place >= 0) & (place < n)
    picked = tl.load(x + place * column_step, mask=asked, other=float("nan")).to(tl.float32)
    loss = tl.log(mass) + (peak - picked)
    tl.store(losses + r, tl.where(place == ignored, 0.0, loss))


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": _IGNORED, "reduction": "mean"},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy of the rows whose target isn't -100."""
    rows, n = x.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        width = min(1024, triton.next_power_of_2(n))
        _rows[(rows,)](losses, x, target, *x.stride(), target.stride(0), n, _IGNORED, width)
    return (losses.sum() / torch.count_nonzero(losses)).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 50), torch.tensor([0, -100, 49, 5, 7, -100])
    x[0, 0] = 40.0
    return cross_entropy(x, target), functional.cross_entropy(x.double(), target)
