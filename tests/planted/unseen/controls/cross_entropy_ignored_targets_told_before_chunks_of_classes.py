"""Chunks of classes are widened one at a time, and each picks the targets that it holds; ignored ones are told before, by the class itself."""

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

CHUNK = 1024


def cross_entropy(logits, target, ignore_index=-100):
    """Cross-entropy of each row, by chunks of classes that are widened one at a time; ``ignore_index`` has a loss of 0."""
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")
    tops, parts, own, counted = [], [], 0.0, target != ignore_index
    found = torch.zeros_like(counted)
    for start in range(0, logits.shape[-1], CHUNK):
        chunk = logits[:, start : start + CHUNK]
        chunk = chunk if chunk.dtype == torch.float64 else chunk.float()
        local = target - start
        inside = (local >= 0) & (local < chunk.shape[1])
        picked = chunk.gather(1, torch.where(inside, local, 0)[:, None])[:, 0]
        own = own + torch.where(inside, picked, 0.0)
        found |= inside
        top = chunk.detach().amax(-1)
        top = torch.where(top == -torch.inf, torch.finfo(top.dtype).min, top)
        tops.append(top)
        parts.append((chunk - top[:, None]).exp().sum(-1))
    # A chunk without visible classes has a sum of 0, and no NaN in its gradient.
    highest = torch.stack(tops).amax(0)
    total = sum(part * (top - highest).exp() for part, top in zip(parts, tops, strict=True))
    losses = highest - own + total.log()
    losses = torch.where(found, losses, float("nan"))
    return torch.where(counted, losses, 0.0).to(logits.dtype)


def _both(x, target):
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")


def ordinary(dtype):
    for shape in ((4, 100), (8, 1024), (5, 5000)):
        x, target = torch.randn(shape).to(dtype), torch.randint(0, shape[1], (shape[0],))
        target[0], target[1] = -100, min(924, shape[1] - 1)
        yield f"{shape}", _both(x, target)
        given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
        cross_entropy(given, target).sum().backward()
        torch.nn.functional.cross_entropy(exact, target, reduction="sum").backward()
        yield f"gradient {shape}", (given.grad, exact.grad)
