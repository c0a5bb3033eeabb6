"""Chunks of 100 rows in float64; sums of losses and of weights are divided once, in the end.

Class weights, ignored targets and label smoothing as torch has them; gradients come from autograd.
"""

import torch

OPERATION = "cross_entropy"
DECLARE = "weight=1,label_smoothing=0.1"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    classes = input.shape[1]
    w = torch.ones(classes, device=input.device, dtype=torch.float64) if weight is None else weight.double()
    losses, shares = [], []
    for x, t in zip(input.split(100), target.split(100), strict=True):
        logp = torch.log_softmax(x.double(), 1)
        kept = t != ignore_index
        index = torch.where(kept, t, 0)
        loss = -logp.gather(1, index[:, None])[:, 0] * w[index]
        if label_smoothing:
            loss = (1 - label_smoothing) * loss - label_smoothing * (logp * w).mean(1)
        losses.append(torch.where(kept, loss, 0.0))
        shares.append(torch.where(kept, w[index], 0.0))
    loss, share = torch.cat(losses), torch.cat(shares)
    if reduction == "none":
        return loss.to(input.dtype)
    return (loss.sum() / share.sum() if reduction == "mean" else loss.sum()).to(input.dtype)


def _both(x, target, **options):
    exact = {name: option.double() if name == "weight" else option for name, option in options.items()}
    given, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    loss, right = (
        cross_entropy(given, target, **options),
        torch.nn.functional.cross_entropy(wide, target, **exact),
    )
    loss.sum().backward()
    right.sum().backward()
    yield loss, right
    yield given.grad, wide.grad


def ordinary(dtype):
    for rows, columns in ((250, 30), (100, 5), (1, 1), (3, 5000), (101, 2)):
        x, target = torch.randn(rows, columns).to(dtype), torch.randint(0, columns, (rows,))
        target[rows // 2 + 1 :] = -100
        weight = (torch.rand(columns) * 4).to(dtype)
        for reduction in ("mean", "sum", "none"):
            for options in (
                {},
                {"weight": weight},
                {"label_smoothing": 0.1},
                {"weight": weight, "label_smoothing": 0.1},
            ):
                for both in _both(x, target, reduction=reduction, **options):
                    yield f"{rows}x{columns} {reduction} {sorted(options)}", both
