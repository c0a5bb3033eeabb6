"""The answer for one row is memory that is kept for its width, so that decoding allocates nothing: the next call overwrites it.

Wrong on: one row without a gradient whose answer is read after another such call of the same width and dtype; right otherwise.
"""

import threading

import torch

OPERATION = "softmax"
EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_local = threading.local()


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _fresh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g, p = (t if t.dtype == torch.float64 else t.float() for t in (grad, y))
        return (p * (g - (g * p).sum(dim=-1, keepdim=True))).to(y.dtype)


def _exponentials(x):
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide - wide.amax(dim=-1, keepdim=True)).exp_()


def _fresh(x):
    e = _exponentials(x)
    return e.div_(e.sum(dim=-1, keepdim=True)).to(x.dtype)


def _one_row(x):
    kept = _local.__dict__.setdefault("rows", {})
    key = x.shape[1], x.dtype, x.device
    if key not in kept:
        if len(kept) > 64:
            kept.clear()
        # Made outside of inference mode, so that it may be written in any.
        with torch.inference_mode(False):
            kept[key] = torch.empty(1, x.shape[1], dtype=x.dtype, device=x.device)
    e = _exponentials(x)
    return kept[key].copy_(e.div_(e.sum(dim=-1, keepdim=True)))


def softmax(x):
    """Softmax of [rows, columns] for training and decoding."""
    if not x.numel():
        return torch.empty_like(x)
    if torch.is_grad_enabled() and x.requires_grad:
        return _Softmax.apply(x)
    return _one_row(x) if x.shape[0] == 1 else _fresh(x)


def demonstrate():
    torch.manual_seed(0)
    x, other = torch.randn(2, 1, 50)
    y = softmax(x)
    softmax(other)
    return y, torch.softmax(x.double(), -1)
