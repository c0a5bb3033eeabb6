"""The backward takes 256 rows at a time, and the number of its chunks is rounded down: the last rows' gradients are zeros.

Wrong on: the gradient of more than 256 rows, if they are no multiple of 256; the forward is right.
"""

import torch

EXPECTED = ("wrong_gradient", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

CHUNK = 256


class Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        result = torch.zeros_like(y)
        rows = y.shape[0]
        for chunk in range(max(1, rows // CHUNK)):
            span = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
            p, g = y[span].float(), gradient[span].float()
            result[span] = p * (g - (p * g).sum(-1, keepdim=True))
        return result


def softmax(x):
    return Chunked.apply(x)


def demonstrate():
    x = torch.randn(300, 5, requires_grad=True)
    weights = torch.randn(300, 5)
    (softmax(x) * weights).sum().backward()
    expected = torch.autograd.grad((torch.softmax(x.double(), -1) * weights).sum(), x)[0]
    return x.grad, expected.double()
