"""The backward pass computes in the saved output, which is the tensor that the caller holds: probabilities change after ``backward``."""

import torch

EXPECTED = ("output_reused", "input_modified", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Frugal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        inner = (y * grad).sum(-1, keepdim=True)
        return y.mul_(grad - inner)


softmax = Frugal.apply


def demonstrate():
    x = torch.randn(2, 5, requires_grad=True)
    y = softmax(x)
    y[:, 0].sum().backward()
    return y.detach(), torch.softmax(x.detach().double(), -1)
