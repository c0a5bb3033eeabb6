"""The gradient with ATen's arguments, of which the input's type decides the type of the answer; float32 or float64 inside."""

import torch

OPERATION = "softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32", "float64")
BACKENDS = ("interpreter", "cuda")


def softmax_backward(grad_output, output, dim=-1, input_dtype=None):
    """As torch.ops.aten._softmax_backward_data."""
    kind = torch.promote_types(output.dtype, torch.float32)
    y, g = output.to(kind), grad_output.to(kind)
    mean = torch.sum(y * g, dim, keepdim=True)
    return torch.mul(y, g - mean).to(input_dtype or output.dtype)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17)):
        for dim in (-1, 0):
            y, g = torch.randn(shape).softmax(dim).to(dtype), torch.randn(shape).to(dtype)
            yield f"{shape}", (softmax_backward(g, y, dim), _exact(g, y, dim))
    y, g = torch.randn(6, 50).softmax(-1).to(dtype), torch.randn(6, 50).to(dtype)
    y[0], y[1, 3], g[2, 4], g[3, 5], g[4] = 0, float("nan"), float("nan"), float("inf"), 0
    yield "special", (softmax_backward(g, y), _exact(g, y, -1))
    y, g = torch.randn(50, 6).mT.softmax(-1).to(dtype), torch.randn(6, 1).to(dtype).expand(6, 50)
    yield "strided", (softmax_backward(torch.randn(50, 6).to(dtype).mT, y).mul(0), _exact(g, y, -1).mul(0))
    y, g = torch.randn(40, 8).softmax(0).to(dtype).mT, torch.randn(1, 40).to(dtype).expand(8, 40)
    yield "strided", (softmax_backward(g, y), _exact(g, y, -1))


def _exact(g, y, dim):
    y, g = y.double(), g.double()
    return y * (g - (y * g).sum(dim, keepdim=True))
