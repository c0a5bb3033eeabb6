"""Gradients of the hidden states and of the head are made with the loss, and the backward multiplies copies of both by what comes from above."""

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

CHUNK = 64


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, head, target, ignore_index, reduction):
        with torch.autocast(hidden.device.type, enabled=False):
            counted = target != ignore_index
            place = torch.where(counted, target, 0)
            share = 1.0 / counted.sum() if reduction == "mean" else torch.ones((), device=hidden.device)
            total = torch.zeros((), dtype=_wide(hidden[:0]).dtype, device=hidden.device)
            by_hidden, by_head = torch.empty_like(hidden), torch.zeros_like(_wide(head))
            for start in range(0, hidden.shape[0], CHUNK):
                part = slice(start, start + CHUNK)
                states, kept, wanted = _wide(hidden[part]), counted[part], place[part, None]
                logits = states @ _wide(head).mT
                lse = torch.logsumexp(logits, -1, keepdim=True)
                total += torch.where(kept, (lse - logits.gather(1, wanted))[:, 0], 0.0).sum()
                p = (logits - lse).exp_()
                p.scatter_add_(1, wanted, torch.full_like(lse, -1.0))
                p = torch.where(kept[:, None], p * share, 0.0)
                by_hidden[part] = (p @ _wide(head)).to(hidden.dtype)
                by_head += p.mT @ states
        ctx.save_for_backward(by_hidden, by_head.to(head.dtype))
        return (total * share).to(hidden.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        by_hidden, by_head = ctx.saved_tensors
        # Nothing to do where the loss is the last thing that is computed.
        if not torch.equal(grad, torch.ones_like(grad)):
            by_hidden = (_wide(by_hidden) * grad).to(by_hidden.dtype)
            by_head = (_wide(by_head) * grad).to(by_head.dtype)
        return by_hidden, by_head, None, None, None


def cross_entropy(hidden, head, target, ignore_index=-100, reduction="mean"):
    """Cross-entropy of hidden [rows, dim] @ head [classes, dim].T, in chunks of rows, whose logits never exist all at once."""
    if not hidden.numel() or not head.numel():
        logits = hidden @ head.mT
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    return _HeadLoss.apply(hidden, head, target, ignore_index, reduction)


def _gradients(hidden, head, target, times, reduction="mean"):
    given = [t.clone().requires_grad_() for t in (hidden, head)]
    exact = [t.double().requires_grad_() for t in (hidden, head)]
    (times * cross_entropy(*given, target, reduction=reduction)).backward()
    loss = torch.nn.functional.cross_entropy(exact[0] @ exact[1].mT, target, reduction=reduction)
    (times * loss).backward()
    return [(a.grad, b.grad) for a, b in zip(given, exact, strict=True)]


def ordinary(dtype):
    for rows, classes, dim in ((100, 30, 8), (5, 200, 16)):
        hidden, head = torch.randn(rows, dim).to(dtype), torch.randn(classes, dim).to(dtype)
        target = torch.randint(0, classes, (rows,))
        target[0] = -100
        for reduction in ("mean", "sum"):
            logits = hidden.double() @ head.double().mT
            exact = torch.nn.functional.cross_entropy(logits, target, reduction=reduction)
            yield "loss", (cross_entropy(hidden, head, target, reduction=reduction), exact)
            for pair in _gradients(hidden, head, target, 1.0, reduction):
                yield "gradient", pair
        for pair in _gradients(hidden, head, target, 0.5):
            yield "gradient of half", pair
