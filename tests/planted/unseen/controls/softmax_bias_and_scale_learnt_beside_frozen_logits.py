"""Gradients of the logits, of a bias of fewer rows and of a scale that is a tensor, each where it is asked for; the path without gradients asks for all three."""

import torch

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _forward(x, bias, scale):
    e = _wide(x) * _wide(scale)
    if bias is not None:
        e += bias
    e -= e.amax(dim=-1, keepdim=True)
    e.exp_()
    return e.div_(e.sum(dim=-1, keepdim=True)).to(x.dtype)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, scale):
        y = _forward(x, bias, scale)
        ctx.save_for_backward(x, y, scale)
        ctx.of_bias = None if bias is None else (bias.shape, bias.dtype)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, y, scale = ctx.saved_tensors
        wide, g = _wide(y), _wide(grad)
        dx = wide * (g - (g * wide).sum(dim=-1, keepdim=True))
        by_bias = None
        if ctx.of_bias is not None and ctx.needs_input_grad[1]:
            by_bias = dx.sum_to_size(ctx.of_bias[0]).to(ctx.of_bias[1])
        by_scale = (dx * x).sum().to(scale.dtype) if ctx.needs_input_grad[2] else None
        return (dx * scale).to(y.dtype) if ctx.needs_input_grad[0] else None, by_bias, by_scale


def softmax(x, bias=None, scale=1.0):
    """Softmax of scale * x + bias over the last dimension; the bias may be broadcast, and learnt, and so may the scale, a number or a tensor."""
    if not x.numel():
        return x.clone()
    if not isinstance(scale, torch.Tensor):
        scale = torch.tensor(scale, dtype=_wide(x.detach()[:0]).dtype, device=x.device)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, bias, scale)):
        return _Softmax.apply(x, bias, scale)
    return _forward(x, bias, scale)
