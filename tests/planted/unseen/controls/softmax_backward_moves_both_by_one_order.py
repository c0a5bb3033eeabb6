"""Output and gradient go by one movedim to rows, whose gradients go back by its inverse; ``out`` may be given, and may be the gradient or the output."""

import torch

OPERATION = "softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax_backward(grad_output, output, dim=-1, *, out=None):
    """The gradient of a softmax's input, y (g - sum y g), along any dimension, in the output's type."""
    if grad_output.shape != output.shape:
        raise ValueError(f"the shapes differ: {tuple(grad_output.shape)} and {tuple(output.shape)}")
    if output.dim():
        y, g = (each.movedim(dim, -1).float() for each in (output, grad_output))
        found = (y * (g - (y * g).sum(-1, keepdim=True))).to(output.dtype).movedim(-1, dim)
    else:
        y, g = output.float(), grad_output.float()
        found = (y * (g - y * g)).to(output.dtype)
    if out is None:
        return found
    if out.shape != found.shape or out.dtype != found.dtype:
        raise ValueError(f"out is {out.dtype} {tuple(out.shape)}, not {found.dtype} {tuple(found.shape)}")
    return out.copy_(found)


def _exact(g, y, dim):
    y, g = y.double(), g.double()
    return y * (g - (y * g).sum(dim, keepdim=True))


def ordinary(dtype):
    for shape, dim in (
        ((4, 100), -1),
        ((40, 9), 0),
        ((3, 20, 7), 1),
        ((2, 5, 6, 6), 1),
        ((0, 4), 1),
        ((4, 0), 1),
        ((1, 1), 0),
    ):
        y, g = torch.randn(shape).softmax(dim).to(dtype), torch.randn(shape).to(dtype)
        exact = _exact(g, y, dim)
        yield f"{shape}", (softmax_backward(g, y, dim), exact)
        yield f"{shape} given", (softmax_backward(g, y, dim, out=torch.empty_like(y)), exact)
        yield f"{shape} in place", (softmax_backward(g, y, dim, out=g), exact)
    y, g = torch.randn(6, 50).softmax(-1).to(dtype), torch.randn(6, 50).to(dtype)
    y[0], y[1, 3], g[2, 4], g[3, 5], g[4] = 0, float("nan"), float("nan"), float("inf"), 0
    yield "special", (softmax_backward(g, y), _exact(g, y, -1))
    g = torch.randn(6, 1).to(dtype).expand(6, 50) * torch.eye(6, 50).to(dtype)
    y = torch.randn(50, 6).softmax(0).to(dtype).mT
    yield "transposed", (softmax_backward(g, y), _exact(g, y, -1))
