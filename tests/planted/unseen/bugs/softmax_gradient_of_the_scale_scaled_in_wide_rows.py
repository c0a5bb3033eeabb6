"""The backward of wide rows works in place: the gradient of the logits is scaled before that of the scale is summed from it.

Wrong on: the gradient of a scale that is a tensor, is not 1, with more than 1024 columns; right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

WIDE = 1024


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        e = _wide(x) * _wide(scale)
        e -= e.amax(dim=-1, keepdim=True)
        e.exp_()
        y = e.div_(e.sum(dim=-1, keepdim=True)).to(x.dtype)
        ctx.save_for_backward(x, y, scale)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, y, scale = ctx.saved_tensors
        wide, g = _wide(y), _wide(grad)
        dx = wide * (g - (g * wide).sum(dim=-1, keepdim=True))
        if x.shape[-1] > WIDE:
            dx.mul_(scale)
            by_scale = (dx * x).sum().to(scale.dtype) if ctx.needs_input_grad[1] else None
            return dx.to(x.dtype), by_scale
        by_scale = (dx * x).sum().to(scale.dtype) if ctx.needs_input_grad[1] else None
        return (dx * scale).to(x.dtype), by_scale


def softmax(x, scale=1.0):
    """Softmax of scale * x over the last dimension; the scale is a number, or a tensor that may be learnt."""
    if not x.numel():
        return x.clone()
    if not isinstance(scale, torch.Tensor):
        scale = torch.tensor(scale, dtype=_wide(x.detach()[:0]).dtype, device=x.device)
    return _Softmax.apply(x, scale)


def demonstrate():
    torch.manual_seed(0)
    x, scale, g = torch.randn(4, 1100), torch.tensor(0.5, requires_grad=True), torch.randn(4, 1100)
    (found,) = torch.autograd.grad(softmax(x, scale), scale, g)
    exact = scale.detach().double().requires_grad_()
    return found, torch.autograd.grad(torch.softmax(x.double() * exact, -1), exact, g.double())[0]
