"""The probabilities of wide rows are made the gradient in their own memory by the backward, which then lets go of them; a second backward of a kept graph finds none.

Wrong on: a second backward (retain_graph=True) of rows of more than 2048 columns, which raises; right otherwise.
"""

import torch

OPERATION = "logsumexp"
EXPECTED = ("raised", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

WIDE = 2048


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = x if x.dtype == torch.float64 else x.float()
        top = wide.amax(dim=-1, keepdim=True)
        base = top.masked_fill(top.isinf(), 0.0)
        weights = (wide - base).exp()
        total = weights.sum(dim=-1, keepdim=True)
        found = base + total.log()
        ctx.dtype, ctx.probabilities = x.dtype, None
        if x.shape[-1] > WIDE and x.requires_grad:
            ctx.probabilities = weights.div_(total.masked_fill(total == 0, 1.0))
        else:
            ctx.save_for_backward(x, found)
        return found.squeeze(-1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        g = grad.unsqueeze(-1)
        if ctx.saved_tensors:
            x, found = ctx.saved_tensors
            return ((x - found.masked_fill(found.isinf(), 0.0)).exp() * g).to(ctx.dtype)
        found = ctx.probabilities.mul_(g).to(ctx.dtype)
        ctx.probabilities = None  # the largest tensor of the step: not to be held until the graph goes
        return found


def logsumexp(x):
    """Log-sum-exp over the last dimension, in float32, or in float64 for that; wide rows spare the backward their exponentials."""
    if x.shape[-1] == 0:
        return torch.logsumexp(x.float(), dim=-1)
    return _LogSumExp.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 3000, requires_grad=True)
    y = logsumexp(x).sum()
    exact = torch.softmax(x.detach().double(), -1)
    torch.autograd.grad(y, x, retain_graph=True)
    try:
        return torch.autograd.grad(y, x)[0], exact
    except AttributeError:
        return torch.full_like(x, float("nan")), exact
