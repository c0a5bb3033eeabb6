"""All chunks of rows go through one scratch of the call, into an ``out`` of any strides, which may lie over the input; exponentials in place are of a copy."""

import torch

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

CHUNK = 1 << 15


def _into(out, x, scratch):
    torch.sub(x.to(scratch.dtype), x.amax(dim=-1, keepdim=True), out=scratch)
    total = scratch.exp().sum(dim=-1, keepdim=True).log_()
    out.copy_(scratch.sub_(total))


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype):
        y = _made(x, dtype)
        ctx.save_for_backward(y)
        ctx.dtype = x.dtype
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide = torch.float64 if y.dtype == torch.float64 else torch.float32
        g, p = grad.to(wide), y.to(wide).exp()
        return (g - p.mul_(g.sum(dim=-1, keepdim=True))).to(ctx.dtype), None


def _made(x, dtype, out=None):
    """log_softmax of the last dimension in a new tensor, or in memory of x's shape and any strides."""
    wide = torch.float64 if torch.float64 in (dtype, x.dtype) else torch.float32
    out = torch.empty(x.shape, dtype=dtype, device=x.device) if out is None else out
    n = x.shape[-1]
    rows = max(1, CHUNK // n)
    if x.numel() <= CHUNK or x.dim() == 1:
        _into(out, x, torch.empty(x.shape, dtype=wide, device=x.device))
    elif x.dim() == 2:
        scratch = torch.empty(min(rows, x.shape[0]), n, dtype=wide, device=x.device)
        for first in range(0, x.shape[0], rows):
            part = x[first : first + rows]
            _into(out[first : first + rows], part, scratch[: part.shape[0]])
    else:
        for part, place in zip(x.unbind(), out.unbind(), strict=True):
            _made(part, dtype, place)
    return out


def log_softmax(x, dim=-1, dtype=None, out=None):
    """log_softmax with torch's dim, dtype and out."""
    dtype = dtype or (x.dtype if out is None else out.dtype)
    if out is not None and (out.shape != x.shape or out.dtype != dtype):
        raise ValueError("out must have the shape of the input and the dtype asked for")
    if out is not None and torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError("out does not support automatic differentiation")
    if not x.numel():
        return torch.empty(x.shape, dtype=dtype, device=x.device) if out is None else out
    # An answer over its own input is made aside: rows would be read after they are written.
    moved = x.movedim(dim, -1)
    if out is None:
        is_asked = torch.is_grad_enabled() and x.requires_grad
        return (_LogSoftmax.apply(moved, dtype) if is_asked else _made(moved, dtype)).movedim(-1, dim)
    if out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
        return out.copy_(_made(moved, dtype).movedim(-1, dim))
    _made(moved, dtype, out.movedim(dim, -1))
    return out
