"""Chunks of rows give their sums and their numbers of rows that count; the mean is one quotient at the end. The losses may be returned beside it."""

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, target, *, ignore_index=-100, reduction="mean", chunk_size=512, return_losses=False):
    """Cross-entropy of [rows, classes], in chunks of rows that bound the float32 copy of the logits."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction is none, mean or sum, not {reduction!r}")
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(f"[rows, classes] and [rows] are needed, not {tuple(logits.shape)} and {tuple(target.shape)}")
    parts, count = [], torch.zeros((), dtype=torch.int64, device=logits.device)
    for rows, picked in zip(logits.split(chunk_size), target.split(chunk_size), strict=True):
        loss = torch.nn.functional.cross_entropy(rows.float(), picked, ignore_index=ignore_index, reduction="none")
        count = count + (picked != ignore_index).sum()
        parts.append(loss)
    losses = torch.cat(parts)
    answer = losses
    if reduction != "none":
        total = torch.stack([part.sum() for part in parts]).sum()
        answer = total / count if reduction == "mean" else total
    return (answer, losses) if return_losses else answer


def ordinary(dtype):
    for rows, classes in ((700, 30), (5, 1), (1024, 9), (3, 5000), (1, 2)):
        x, target = torch.randn(rows, classes).to(dtype), torch.randint(0, classes, (rows,))
        target[: rows // 2] = -100
        for reduction in ("mean", "sum", "none"):
            given, wide = x.clone().requires_grad_(), x.double().requires_grad_()
            loss = cross_entropy(given, target, reduction=reduction)
            exact = torch.nn.functional.cross_entropy(wide, target, reduction=reduction)
            yield f"{rows}x{classes} {reduction}", (loss, exact)
            loss.sum().backward()
            exact.sum().backward()
            yield f"{rows}x{classes} {reduction} gradient", (given.grad, wide.grad)
    x = torch.randn(4, 8).to(dtype)
    x[0, 0], x[1], x[2, 3] = float("-inf"), float("nan"), float("inf")
    for target in ([3, -100, 2, 1], [0, 1, 2, 3], [-100] * 4):
        target = torch.tensor(target)
        for reduction in ("mean", "none"):
            exact = torch.nn.functional.cross_entropy(x.double(), target, reduction=reduction)
            yield "special", (cross_entropy(x, target, reduction=reduction), exact)
    x, target = torch.randn(0, 9).to(dtype), torch.zeros(0, dtype=torch.long)
    yield "empty", (cross_entropy(x, target), torch.tensor(float("nan"), dtype=torch.float64))
    yield "empty losses", (cross_entropy(x, target, reduction="none"), torch.zeros(0, dtype=torch.float64))
