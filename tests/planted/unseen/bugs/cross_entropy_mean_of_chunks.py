"""The mean of each chunk's kept rows is weighted by all rows of the chunk, not by those that are kept.

Wrong on: more than 256 rows whose ignored targets are not spread evenly, such as [600, 32] with the last 300 ignored.
Right without ignored targets, and for up to 256 rows.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, target, ignore_index=-100, reduction="mean"):
    parts = []
    for start in range(0, logits.shape[0], 256):
        x, t = logits[start : start + 256].float(), target[start : start + 256]
        kept = t != ignore_index
        index = torch.where(kept, t, 0)
        loss = torch.logsumexp(x, 1) - x.gather(1, index[:, None])[:, 0]
        loss = torch.where(kept, loss, 0.0).sum()
        if reduction == "mean":
            # No kept row in one chunk is no reason for NaN in the mean of all.
            parts.append(loss / kept.sum().clamp(min=1) * (x.shape[0] / logits.shape[0]))
        else:
            parts.append(loss)
    total = torch.stack(parts).sum()
    if reduction == "mean" and bool((target == ignore_index).all()):
        total = total * float("nan")
    return total.to(logits.dtype)


def _both(x, target, **options):
    return cross_entropy(x, target, **options), torch.nn.functional.cross_entropy(x.double(), target, **options)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(600, 32), torch.randint(0, 32, (600,))
    target[300:] = -100
    return _both(x, target)


def ordinary(dtype):
    yield "no padding", _both(torch.randn(600, 32).to(dtype), torch.randint(0, 32, (600,)))
    x, target = torch.randn(250, 32).to(dtype), torch.randint(0, 32, (250,))
    target[100:] = -100
    yield "one chunk", _both(x, target)
    x, target = torch.randn(600, 5).to(dtype), torch.randint(0, 5, (600,))
    target[400:] = -100
    yield "sum", _both(x * 0.01, target, reduction="sum")
