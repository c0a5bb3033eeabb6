"""With both class weights and label smoothing the smoothed part of the loss leaves out the weights of the classes.

Wrong on: ``cross_entropy(logits, target, weight=w, label_smoothing=0.1)``. Right with either of them alone.
"""

import torch

OPERATION = "cross_entropy"
DECLARE = "weight=1,label_smoothing=0.1"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    wide = input.float()
    logp = wide - torch.logsumexp(wide, -1, keepdim=True)
    kept = target != ignore_index
    index = torch.where(kept, target, 0)
    share = torch.ones_like(logp[:, 0]) if weight is None else weight.float()[index]
    share = torch.where(kept, share, 0.0)
    loss = -logp.gather(1, index[:, None])[:, 0] * share
    if label_smoothing:
        smooth = torch.where(kept, -logp.mean(-1), 0.0)
        loss = (1 - label_smoothing) * loss + label_smoothing * smooth
    loss = torch.where(kept, loss, 0.0)
    if reduction == "none":
        return loss.to(input.dtype)
    if reduction == "sum":
        return loss.sum().to(input.dtype)
    return (loss.sum() / share.sum()).to(input.dtype)


def _both(x, target, **options):
    exact = {name: option.double() if name == "weight" else option for name, option in options.items()}
    return cross_entropy(x, target, **options), torch.nn.functional.cross_entropy(x.double(), target, **exact)


def demonstrate():
    torch.manual_seed(0)
    x, target, weight = torch.randn(30, 20), torch.randint(0, 20, (30,)), torch.rand(20) * 4
    return _both(x, target, weight=weight, label_smoothing=0.1)


def ordinary(dtype):
    x, target, weight = torch.randn(30, 20).to(dtype), torch.randint(0, 20, (30,)), (torch.rand(20) * 4).to(dtype)
    target[7] = -100
    for reduction in ("none", "sum", "mean"):
        yield f"{reduction}, weights", _both(x, target, weight=weight, reduction=reduction)
        yield f"{reduction}, smoothed", _both(x, target, label_smoothing=0.1, reduction=reduction)
