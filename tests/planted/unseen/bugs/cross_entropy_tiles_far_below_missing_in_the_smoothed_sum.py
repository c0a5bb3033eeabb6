"""Tiles whose largest logit is 104 below the row's are passed over, as their exponentials are nothing; the smoothed part needs their logits all the same.

Wrong on: label smoothing with a whole tile of 1024 logits far below the largest (a vocabulary padded with -1e4, peaked rows). Without smoothing all is right.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(
    losses, x, target, x_row, x_column, columns, ignored, smoothing, SMOOTHED: tl.constexpr, TILE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row
    picked = tl.load(target + row)
    if picked == ignored:
        tl.store(losses + row, 0.0)
    else:
        lane = tl.arange(0, TILE).to(tl.int64)
        peak = tl.full([TILE], -float("inf"), tl.float32)
        for first in range(0, columns, TILE):
            column = first + lane
            v = tl.load(x + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
            peak = tl.maximum(peak, v)
        largest = tl.max(peak, 0)
        mass = tl.zeros([TILE], tl.float32)
        added = tl.zeros([TILE], tl.float32)
        for first in range(0, columns, TILE):
            column = first + lane
            v = tl.load(x + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
            if tl.max(v, 0) <= largest - 104.0:
                pass
            else:
                mass += tl.exp(v - largest)
                if SMOOTHED:
                    added += tl.where(column < columns, largest - v, 0.0)
        loss = largest - tl.load(x + picked * x_column).to(tl.float32)
        if SMOOTHED:
            loss = (1.0 - smoothing) * loss + smoothing * (tl.sum(added, 0) / columns)
        tl.store(losses + row, tl.log(tl.sum(mass, 0)) + loss)


def cross_entropy(logits, target, *, ignore_index=-100, label_smoothing=0.0, reduction="none"):
    """Cross-entropy of [rows, classes] in float32."""
    rows, columns = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    if rows:
        _kernel[(rows,)](
            losses,
            logits,
            target.contiguous(),
            *logits.stride(),
            columns,
            ignore_index,
            label_smoothing,
            bool(label_smoothing),
            1024,
        )
    if reduction == "none":
        return losses
    return losses.sum() / (target != ignore_index).sum() if reduction == "mean" else losses.sum()


def _both(x, target, **options):
    exact = torch.nn.functional.cross_entropy(x.double(), target, **{"reduction": "none", **options})
    return cross_entropy(x, target, **options), exact


def demonstrate():
    x = torch.randn(4, 5000)
    x[:, 3000:] = -1e4
    return _both(x, torch.tensor([3, 100, 2999, 0]), label_smoothing=0.1)


def ordinary(dtype):
    x = torch.randn(6, 3000).to(dtype)
    target = torch.tensor([3, 0, -100, 0, 7, 2999])
    for smoothing in (0.0, 0.1):
        yield f"{smoothing}", _both(x, target, label_smoothing=smoothing)
        yield f"{smoothing} mean", _both(x, target, label_smoothing=smoothing, reduction="mean")
    x[:, 100] = 90.0
    yield "peaked", _both(x, target, label_smoothing=0.1)
    x[:, 1000:] = -1e4
    yield "padded", _both(x, target.clamp(max=900))
