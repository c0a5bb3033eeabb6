"""The backward of wide rows takes exponentials in place on ``y.to(torch.float32)``, which is no copy of float32: it is the answer that the caller holds.

Wrong on: the answer after its backward, and a second backward, of float32 or float64 with more than 2048 columns; right otherwise.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("output_reused", "input_modified", "wrong_gradient", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

WIDE = 2048
CHUNK_ELEMENTS = 1 << 20


def _wide(t):
    return t if t.dtype == torch.float64 else t.to(torch.float32)


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = _wide(x)
        shifted = wide - wide.amax(dim=-1, keepdim=True)
        y = (shifted - shifted.exp().sum(dim=-1, keepdim=True).log()).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        columns = y.shape[-1]
        if columns <= WIDE:
            g = _wide(grad)
            return (g - _wide(y).exp() * g.sum(dim=-1, keepdim=True)).to(y.dtype)
        out = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        y2, g2, out2 = y.reshape(-1, columns), grad.reshape(-1, columns), out.view(-1, columns)
        rows = max(1, CHUNK_ELEMENTS // columns)
        for first in range(0, y2.shape[0], rows):
            part = slice(first, first + rows)
            g = _wide(g2[part])
            p = _wide(y2[part]).exp_()
            out2[part] = g - p.mul_(g.sum(dim=-1, keepdim=True))
        return out


def log_softmax(x):
    """log_softmax of the last dimension. Wide rows go in chunks, so that the backward needs no second matrix in float32."""
    if not x.numel():
        return x.clone()
    if torch.is_grad_enabled() and x.requires_grad:
        return LogSoftmax.apply(x)
    wide = _wide(x)
    shifted = wide - wide.amax(dim=-1, keepdim=True)
    return (shifted - shifted.exp().sum(dim=-1, keepdim=True).log()).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 3000, requires_grad=True)
    y = log_softmax(x)
    y.backward(torch.randn(2, 3000))
    return y, torch.log_softmax(x.detach().double(), -1)
