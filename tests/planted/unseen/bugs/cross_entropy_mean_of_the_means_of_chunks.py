"""The mean is the mean of the chunks' means: chunks of which more rows are ignored, and a short last one, weigh as much as the others.

Wrong on: more than 512 rows, no multiple of 512 or with ignored rows here and there in different numbers. A chunk of ignored rows alone counts as 0.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, target, *, ignore_index=-100, reduction="mean", chunk_size=512):
    """Cross-entropy of [rows, classes], in chunks of rows that bound the float32 copy of the logits."""
    parts = []
    for start in range(0, max(len(target), 1), chunk_size):
        wide = logits[start : start + chunk_size].float()
        picked = target[start : start + chunk_size]
        loss = torch.nn.functional.cross_entropy(wide, picked, ignore_index=ignore_index, reduction="none")
        if reduction == "mean":
            count = (picked != ignore_index).sum()
            loss = loss.sum() / (count.clamp(min=1) if len(target) > chunk_size else count)
        parts.append(loss)
    if reduction == "none":
        return torch.cat(parts)
    stacked = torch.stack([part.sum() for part in parts])
    return stacked.mean() if reduction == "mean" else stacked.sum()


def _both(x, target, **options):
    exact = torch.nn.functional.cross_entropy(x.double(), target, **options)
    return cross_entropy(x, target, **options), exact


def demonstrate():
    x, target = torch.randn(700, 30), torch.randint(0, 30, (700,))
    x[512:] *= 4
    target[:400] = -100
    return _both(x, target)


def ordinary(dtype):
    x, target = torch.randn(300, 40).to(dtype), torch.randint(0, 40, (300,))
    target[::7] = -100
    for reduction in ("mean", "sum", "none"):
        yield reduction, _both(x, target, reduction=reduction)
    yield "1024", _both(torch.randn(1024, 20).to(dtype), torch.randint(0, 20, (1024,)))
