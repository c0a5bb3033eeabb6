"""The target's logit is that of column 0 until the tile is met in which the target stands, told by ``0 < target - start < width``: the first column of a tile is in none.

Wrong on: targets 512, 1024, 1536 ..., whose loss is that of column 0; right for target 0, and for all others.
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
def _losses(out, x, target, target_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH)
    t = tl.load(target + r * target_step).to(tl.int64)
    x += r * row_step
    picked = tl.load(x).to(tl.float32)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = (at + lane).to(tl.int64)
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        local = t - at
        if (local > 0) & (local < WIDTH):
            # No second load: the target's logit is in the tile already.
            picked = tl.sum(tl.where(lane == local, v, 0.0), 0)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    tl.store(out + r, (peak - picked) + tl.log(whole))


@variant(operation="cross_entropy", call="f(x, target)", dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row, float32 [rows]."""
    rows, n = x.shape
    out = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        _losses[(rows,)](out, x, target, target.stride(0), *x.stride(), n, min(512, triton.next_power_of_2(n)))
    return out


def _both(x, target):
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(5, 2000), torch.tensor([0, 511, 1024, 1500, 1999]))
