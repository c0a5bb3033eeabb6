"""The gradient is made in the forward, as Liger has it, in chunks of rows; it is kept in float32 and multiplied by what comes from above."""

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index, label_smoothing, reduction):
        rows, classes = logits.shape
        losses = torch.zeros(rows, dtype=torch.float32, device=logits.device)
        grad = (
            torch.empty(rows, classes, dtype=torch.float32, device=logits.device) if ctx.needs_input_grad[0] else None
        )
        kept = target != ignore_index
        safe = torch.where(kept, target, 0)
        for start in range(0, rows, 256):
            part = slice(start, start + 256)
            logp = torch.log_softmax(logits[part].float(), dim=-1)
            picked = logp.gather(1, safe[part, None])
            loss = -picked[:, 0]
            if label_smoothing:
                loss = (1 - label_smoothing) * loss - label_smoothing * logp.mean(-1)
            losses[part] = torch.where(kept[part], loss, 0.0)
            if grad is not None:
                slope = logp.exp() - label_smoothing / classes
                slope.scatter_add_(1, safe[part, None], torch.full_like(picked, label_smoothing - 1))
                grad[part] = torch.where(kept[part, None], slope, 0.0)
        count = kept.sum()
        ctx.save_for_backward(grad, kept, count)
        ctx.reduction, ctx.dtype = reduction, logits.dtype
        if reduction == "none":
            return losses
        return losses.sum() / count if reduction == "mean" else losses.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        grad, kept, count = ctx.saved_tensors
        above = above.float().reshape(-1, 1)
        if ctx.reduction == "mean":
            above = above / count
        return torch.where(kept[:, None], grad * above, 0.0).to(ctx.dtype), None, None, None, None


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """Cross-entropy of [rows, classes], a mean unless another reduction is asked for."""
    return _Losses.apply(logits, target, ignore_index, label_smoothing, reduction)


def ordinary(dtype):
    for rows, classes, smoothing, reduction in (
        (5, 40, 0.0, "mean"),
        (300, 9, 0.1, "sum"),
        (7, 1, 0.1, "none"),
        (3, 5000, 0.0, "none"),
    ):
        x = torch.randn(rows, classes).to(dtype).requires_grad_()
        wide = x.detach().double().requires_grad_()
        target = torch.randint(0, classes, (rows,))
        target[1] = -100
        options = {"label_smoothing": smoothing, "reduction": reduction}
        given, exact = cross_entropy(x, target, **options), torch.nn.functional.cross_entropy(wide, target, **options)
        yield f"{rows}x{classes}", (given, exact)
        above = torch.randn(given.shape)
        given.backward(above)
        exact.backward(above.double())
        yield f"{rows}x{classes} gradient", (x.grad, wide.grad)
    x = torch.randn(3, 8).to(dtype)
    x[0, 0], x[1] = float("-inf"), float("nan")
    for target in ([3, -100, 2], [0, 1, 2], [-100, -100, -100]):
        target = torch.tensor(target)
        yield "special", (cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target))
    x = torch.randn(9, 12).to(dtype).mT
    yield (
        "transposed",
        (cross_entropy(x, torch.arange(12) % 9), torch.nn.functional.cross_entropy(x.double(), torch.arange(12) % 9)),
    )
