"""Right: the softmax of x / 8 + bias, whose backward gives the bias the gradient of the scores and the logits an eighth of it, each only where it is asked for."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SCALE = 0.125


class _BiasedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        y = torch.softmax(x.float() * _SCALE + bias.float(), -1)
        ctx.save_for_backward(y)
        ctx.types = x.dtype, bias.dtype
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        of_x, of_bias = ctx.types
        with torch.autocast(grad.device.type, enabled=False):
            of_y = grad.float()
            of_scores = y * (of_y - (y * of_y).sum(-1, keepdim=True))
        first = (of_scores * _SCALE).to(of_x) if ctx.needs_input_grad[0] else None
        return first, of_scores.to(of_bias) if ctx.needs_input_grad[1] else None


@variant(parameters={"scale": _SCALE}, call="f(x, bias)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, bias):
    """Softmax of x / 8 + bias in each row, with gradients for both."""
    return _BiasedSoftmax.apply(x, bias)
