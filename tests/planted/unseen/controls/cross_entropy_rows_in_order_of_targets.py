"""Right: rows are handled in the order of their targets and put back; label smoothing and log-sum-exps are taken together, as one sum of differences."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED, _SMOOTHING = -100, 0.1


@triton.jit
def _ordered(
    losses, x, order, target, target_step, row_step, column_step, n, ignored, SHARE: tl.constexpr, WIDTH: tl.constexpr
):
    r = tl.load(order + tl.program_id(0))
    chosen = tl.load(target + r * target_step)
    if chosen == ignored:
        tl.store(losses + r, 0.0)
    else:
        lane = tl.arange(0, WIDTH).to(tl.int64)
        peak = tl.full([], -float("inf"), tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            peak = tl.maximum(peak, tl.max(v, 0))
        mass = tl.zeros([WIDTH], tl.float64)
        below = tl.zeros([WIDTH], tl.float64)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float64)
            apart = peak.to(tl.float64) - v
            mass += tl.where(c < n, tl.exp(-apart), 0.0)
            below += tl.where(c < n, apart, 0.0)
        is_column = (chosen >= 0) & (chosen < n)
        own = tl.load(x + r * row_step + chosen * column_step, mask=is_column, other=float("nan")).to(tl.float64)
        # (1 - s) (lse - x_t) + s / n * sum of (lse - x): the logarithm counts once, the differences by their shares.
        apart = (1.0 - SHARE) * (peak.to(tl.float64) - own) + SHARE * (tl.sum(below, 0) / n)
        tl.store(losses + r, apart + tl.log(tl.sum(mass, 0)))


@variant(
    operation="cross_entropy",
    parameters={"label_smoothing": _SMOOTHING, "ignore_index": _IGNORED},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Smoothed cross-entropy of each row of [rows, columns] and its target; 0 for a target of -100. Float32 [rows]."""
    rows, n = x.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        order = torch.argsort(target, stable=True)
        width = max(16, min(1024, triton.next_power_of_2(n)))
        sizes = (target.stride(0), *x.stride(), n, _IGNORED, _SMOOTHING, width)
        _ordered[(rows,)](losses, x, order, target, *sizes)
    return losses
