"""Sizes that the fused way does not take go by plain operations, which fill hidden logits with -10000 first and scale after it, as the fused way does not.

Wrong on: a mask, keys that are no multiple of 8, and a scale below 0.003 or logits that lie near -10000; right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, scale):
        wide = x if x.dtype == torch.float64 else x.float()
        e = (wide * scale).masked_fill_(mask, float("-inf"))
        e = e.sub_(e.amax(dim=-1, keepdim=True)).exp_()
        y = e.div_(e.sum(dim=-1, keepdim=True)).to(x.dtype)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide, g = (y, grad) if y.dtype == torch.float64 else (y.float(), grad.float())
        return (wide * (g - (wide * g).sum(dim=-1, keepdim=True)) * ctx.scale).to(y.dtype), None, None


def softmax(x, mask, scale=1.0):
    """Softmax of scale * x over the last dimension; a boolean ``mask``, True where a logit is hidden, is broadcast to the logits."""
    if not x.numel():
        return x.clone()
    if x.shape[-1] % 8 == 0:
        return _Fused.apply(x, mask, scale)
    wide = x if x.dtype == torch.float64 else x.float()
    wide = wide.masked_fill(mask, -10000.0)
    if scale != 1.0:
        wide = wide * scale
    found = torch.softmax(wide, -1)
    # A row without visible logits has no answer in either way.
    return found.masked_fill(mask.expand(x.shape).all(dim=-1, keepdim=True), float("nan")).to(x.dtype)


def _exact(x, mask, scale):
    return torch.softmax((x.double() * scale).masked_fill(mask, -torch.inf), -1)


def demonstrate():
    torch.manual_seed(0)
    x, mask = 2000 * torch.randn(3, 30), torch.rand(3, 30) > 0.5
    return softmax(x, mask, 0.001), _exact(x, mask, 0.001)


def ordinary(dtype):
    for shape in ((4, 96), (4, 100), (2, 3, 33)):
        x, mask = torch.randn(shape).to(dtype), torch.rand(shape) > 0.5
        for scale in (1.0, 0.125, 3.0):
            yield f"{shape} {scale}", (softmax(x, mask, scale), _exact(x, mask, scale))
            given, exact, g = x.clone().requires_grad_(), x.double().requires_grad_(), torch.randn(shape).to(dtype)
            softmax(given, mask, scale).backward(g)
            _exact(exact, mask, scale).backward(g.double())
            yield f"gradient {shape} {scale}", (given.grad, exact.grad)
