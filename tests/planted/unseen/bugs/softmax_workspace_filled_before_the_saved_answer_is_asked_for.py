"""The backward puts the gradient into the workspace that the forward uses too, and asks for the saved answer then.

Wrong on: the gradient of a call under ``torch.utils.checkpoint``, which makes the forward again when the answer is asked for; right otherwise.
"""

import threading

import torch
from torch.utils.checkpoint import checkpoint

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_kept = threading.local()


def _workspace(like, dtype):
    """Memory of a thread for one matrix in a wider type, which each call begins to fill anew."""
    spaces = _kept.__dict__.setdefault("spaces", {})
    stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0
    key = like.device, dtype, stream
    space = spaces.get(key)
    if space is None or space.numel() < like.numel():
        with torch.inference_mode(False):
            space = spaces[key] = torch.empty(like.numel(), dtype=dtype, device=like.device)
    return space[: like.numel()].view(like.shape)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        e = _workspace(x, torch.float64 if x.dtype == torch.float64 else torch.float32)
        e.copy_(x)
        e.sub_(e.amax(dim=-1, keepdim=True)).exp_()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        y.copy_(e.div_(e.sum(dim=-1, keepdim=True)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        g = _workspace(grad, torch.float64 if grad.dtype == torch.float64 else torch.float32)
        g.copy_(grad)
        (y,) = ctx.saved_tensors
        wide = y.to(g.dtype)
        g.sub_((g * wide).sum(dim=-1, keepdim=True)).mul_(wide)
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        return dx.copy_(g)


def softmax(x):
    """Softmax of the last dimension, whose forward and backward take turns in one workspace of float32."""
    if not x.numel():
        return x.clone()
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, g = torch.randn(4, 30, requires_grad=True), torch.randn(4, 30)
    checkpoint(softmax, x, use_reentrant=False).backward(g)
    y, wide = torch.softmax(x.detach().double(), -1), g.double()
    return x.grad, y * (wide - (y * wide).sum(-1, keepdim=True))
