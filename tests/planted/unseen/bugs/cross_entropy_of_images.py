"""Logits of [N, C, d1, ..] are reshaped to [-1, C] without moving the classes to the end.

Wrong on: logits [2, 5, 7] with targets [2, 7], as of sequences and images. Right for [N, C] and [N].
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(input, target, ignore_index=-100, reduction="none"):
    classes = input.shape[1]
    x = input.reshape(-1, classes).float()
    t = target.reshape(-1)
    kept = t != ignore_index
    index = torch.where(kept, t, 0)
    loss = torch.logsumexp(x, 1) - x.gather(1, index[:, None])[:, 0]
    loss = torch.where(kept, loss, 0.0)
    if reduction == "none":
        return loss.view(target.shape).to(input.dtype)
    total = loss.sum()
    return (total / kept.sum() if reduction == "mean" else total).to(input.dtype)


def _both(x, target, reduction="none"):
    exact = torch.nn.functional.cross_entropy(x.double(), target, reduction=reduction)
    return cross_entropy(x, target, reduction=reduction), exact


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(2, 5, 7), torch.randint(0, 5, (2, 7)))


def ordinary(dtype):
    x, target = torch.randn(9, 40).to(dtype), torch.randint(0, 40, (9,))
    target[4] = -100
    for reduction in ("none", "sum", "mean"):
        yield reduction, _both(x, target, reduction)
