"""Where most rows are ignored the others are gathered, and their gradients go into a matrix that is kept by its shape; the ignored rows are not cleared.

Wrong on: a second backward of the same shape with more than half of its rows ignored (prompts in fine-tuning): rows that counted before have that gradient.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient", "ulp_exceeds_bound", "unwritten_output", "masked_not_zero")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SCRATCH = {}


def _scratch(like):
    key = tuple(like.shape), like.dtype, like.device
    if key not in _SCRATCH:
        _SCRATCH[key] = torch.zeros_like(like, memory_format=torch.contiguous_format)
    return _SCRATCH[key]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index):
        kept = target != ignore_index
        logp = torch.log_softmax(logits.float(), -1)
        picked = torch.where(kept, target, 0)
        ctx.save_for_backward(logits, picked, kept)
        return torch.where(kept, -logp.gather(1, picked[:, None])[:, 0], 0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        logits, picked, kept = ctx.saved_tensors
        if int(kept.sum()) * 2 >= len(kept):
            slope = torch.softmax(logits.float(), -1)
            slope[torch.arange(len(picked), device=picked.device), picked] -= 1
            slope = torch.where(kept[:, None], slope * above[:, None].float(), 0.0)
            return slope.to(logits.dtype), None, None
        rows = kept.nonzero()[:, 0]
        slope = torch.softmax(logits[rows].float(), -1)
        slope[torch.arange(len(rows), device=rows.device), picked[rows]] -= 1
        gradient = _scratch(logits)
        gradient[rows] = (slope * above[rows, None].float()).to(logits.dtype)
        return gradient.clone(), None, None


def cross_entropy(logits, target, ignore_index=-100, reduction="mean"):
    """Cross-entropy of [rows, classes]; ignored rows cost nothing."""
    losses = _CrossEntropy.apply(logits, target, ignore_index)
    if reduction == "none":
        return losses
    return losses.sum() / (target != ignore_index).sum() if reduction == "mean" else losses.sum()


def _gradients(x, target):
    given, exact = x.detach().clone().requires_grad_(), x.detach().double().requires_grad_()
    cross_entropy(given, target).backward()
    torch.nn.functional.cross_entropy(exact, target).backward()
    return given.grad, exact.grad


def demonstrate():
    first, second = torch.full((8,), -100), torch.full((8,), -100)
    first[:3], second[4:6] = 5, 7
    _gradients(torch.randn(8, 20), first)
    return _gradients(torch.randn(8, 20), second)


def ordinary(dtype):
    x, target = torch.randn(6, 90).to(dtype), torch.tensor([3, 0, -100, 0, 7, 89])
    wide = x.double()
    yield "loss", (cross_entropy(x, target), torch.nn.functional.cross_entropy(wide, target))
    yield "gradient", _gradients(x, target)
    yield "one row", _gradients(x, torch.tensor([-100, 2, -100, -100, -100, -100]))
