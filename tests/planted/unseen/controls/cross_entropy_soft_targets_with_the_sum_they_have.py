"""Options come as a frozen dataclass or as keywords; probabilities as targets count with the sum they have, be it 0 or 2."""

import dataclasses

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@dataclasses.dataclass(frozen=True)
class Options:
    """How losses are made and joined."""

    ignore_index: int = -100
    reduction: str = "none"
    label_smoothing: float = 0.0

    def __post_init__(self):
        if self.reduction not in ("none", "mean", "sum"):
            raise ValueError(f"reduction is none, mean or sum, not {self.reduction!r}")


def cross_entropy(input, target, options=None, **changes):
    """Cross-entropy of [rows, classes] in float32, with classes or with probabilities of all classes as targets."""
    options = dataclasses.replace(options or Options(), **changes)
    if input.dim() != 2 or not input.shape[1]:
        raise ValueError(f"logits are a matrix of at least one class, not {tuple(input.shape)}")
    smoothing = options.label_smoothing
    logp = torch.log_softmax(input.float(), -1)
    if target.is_floating_point():
        wanted = target.float()
        if smoothing:
            wanted = wanted * (1 - smoothing) + smoothing / input.shape[1]
        losses, count = -(wanted * logp).sum(-1), len(input)
    else:
        kept = target != options.ignore_index
        losses = -logp.gather(1, torch.where(kept, target, 0).long()[:, None])[:, 0]
        if smoothing:
            losses = (1 - smoothing) * losses - smoothing * logp.mean(-1)
        losses, count = torch.where(kept, losses, 0.0), kept.sum()
    if options.reduction == "none":
        return losses
    return losses.sum() / count if options.reduction == "mean" else losses.sum()


def ordinary(dtype):
    x = torch.randn(6, 90).to(dtype)
    soft = torch.rand(6, 90)
    soft[2] = 0
    for reduction in ("none", "mean", "sum"):
        for smoothing in (0.0, 0.1):
            for target in (torch.tensor([3, 0, -100, 0, 7, 89]), soft):
                options = {"reduction": reduction, "label_smoothing": smoothing}
                wide = target.double() if target.is_floating_point() else target
                exact = torch.nn.functional.cross_entropy(x.double(), wide, **options)
                yield f"{options}", (cross_entropy(x, target, **options), exact)
                yield f"{options} kept", (cross_entropy(x, target, Options(**options)), exact)
    x[0, 0], x[1], x[2, 5], x[3] = float("-inf"), float("nan"), float("inf"), float("-inf")
    target = torch.tensor([3, 0, -100, 0, 7, 89])
    exact = torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
    yield "special", (cross_entropy(x, target), exact)
    x, target = torch.randn(0, 9).to(dtype), torch.zeros(0, dtype=torch.long)
    yield "empty", (cross_entropy(x, target), torch.zeros(0, dtype=torch.float64))
