"""Losses are collected by class, ``sums[target] += losses``, and weighted there; of rows with the same target an index in place keeps the last one alone.

Wrong on: two rows of the same class, which a batch of tokens always has; right for distinct targets, as a few rows of a large vocabulary have them.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(losses, x, target, target_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    t = tl.load(target + r * target_step).to(tl.int64)
    picked = tl.load(x + t * column_step, mask=(t >= 0) & (t < n), other=float("nan")).to(tl.float32)
    tl.store(losses + r, (peak - picked) + tl.log(whole))


@variant(
    operation="cross_entropy",
    parameters={"weight": 1, "reduction": "sum", "invalid_target": "undefined"},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Sum of the weighted cross-entropies of all rows, one number in float32."""
    rows, n = x.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        _losses[(rows,)](losses, x, target, target.stride(0), *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    # One product for each class, not for each row.
    sums = torch.zeros(n, dtype=torch.float32, device=x.device)
    sums[target] += losses
    return (sums * weight.float())[target.unique()].sum()


def _both(x, target, weight):
    exact = torch.nn.functional.cross_entropy(x.double(), target, weight.double(), reduction="sum")
    return cross_entropy(x, target, weight), exact


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(12, 20), torch.randint(0, 20, (12,)), torch.rand(20))
