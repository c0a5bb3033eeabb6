"""The classes go to the end of the output by ``movedim``, and to the end of the gradient by ``transpose``: one order for the last two dimensions, else two.

Wrong on: ``dim=1`` of four dimensions, [images, classes, height, width]: the gradient's height and width are exchanged; and ``dim=0`` of three.
"""

import torch

OPERATION = "softmax_backward"
EXPECTED = ("ulp_exceeds_bound", "raised", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _rows(y, g):
    wide, gradient = y.float(), g.float()
    return torch.addcmul(wide * gradient, wide, (wide * gradient).sum(-1, keepdim=True), value=-1).to(y.dtype)


def softmax_backward(grad_output, output, dim=-1):
    """The gradient of a softmax's input, y (g - sum y g), along any dimension; the kernel knows rows alone."""
    if output.dim() < 2:
        return _rows(output, grad_output)
    columns = output.shape[dim]
    y = output.movedim(dim, -1)
    g = grad_output.transpose(dim, -1)
    found = _rows(y.reshape(-1, max(columns, 1)), g.reshape(-1, max(columns, 1)))
    return found.view(y.shape).movedim(-1, dim)


def _both(shape, dim, dtype=torch.float32):
    y, g = torch.randn(shape).softmax(dim).to(dtype), torch.randn(shape).to(dtype)
    wide, gradient = y.double(), g.double()
    return softmax_backward(g, y, dim), wide * (gradient - (wide * gradient).sum(dim, keepdim=True))


def demonstrate():
    return _both((2, 5, 6, 6), 1)


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((40, 9), 0), ((3, 20, 7), 1), ((2, 3, 4, 50), -1), ((2, 3, 5, 6), 2)):
        yield f"{shape}", _both(shape, dim, dtype)
