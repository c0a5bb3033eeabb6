"""Wide rows are taken 16 at a time and made again in the backward by a closure over the loop's variables, which hold the last part's rows by then.

Wrong on: the gradient of more than 16 rows of more than 4096 classes; where 16 doesn't divide the rows the backward raises. Right otherwise.
"""

import torch
from torch.utils.checkpoint import checkpoint

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

WIDE, ROWS = 4096, 16


def _losses(logits, target, ignore_index, label_smoothing):
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.nn.functional.cross_entropy(
        wide, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="none"
    )


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0):
    """Cross-entropy of [rows, classes]; of a large vocabulary no more than 16 rows are in float32 at a time, forward and backward."""
    rows, classes = logits.shape
    learns = torch.is_grad_enabled() and logits.requires_grad
    if not learns or classes <= WIDE or rows <= ROWS:
        return _losses(logits, target, ignore_index, label_smoothing).to(logits.dtype)
    parts = []
    for x, t in zip(logits.split(ROWS), target.split(ROWS), strict=True):
        parts.append(
            checkpoint(lambda: _losses(x, t, ignore_index, label_smoothing), use_reentrant=False)  # noqa: B023
        )
    return torch.cat(parts).to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target, g = torch.randn(32, 4100), torch.randint(0, 4100, (32,)), torch.randn(32)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target).backward(g)
    torch.nn.functional.cross_entropy(exact, target, reduction="none").backward(g.double())
    return given.grad, exact.grad
