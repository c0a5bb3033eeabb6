"""The backward multiplies a row's smoothed gradient by the weight of its target; the smoothed share of each other class has that class's own weight.

Wrong on: gradients with class weights and label smoothing together, where weights differ; right with either alone, and the loss is right with both.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SMOOTHING = 0.1


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, weight):
        logarithms = torch.log_softmax(x.float(), -1)
        w = weight.float()
        of_target = -logarithms.gather(1, target[:, None])[:, 0] * w[target]
        # A class without weight adds nothing, wherever its logit lies.
        of_all = torch.where(w == 0, 0.0, -logarithms * w).sum(-1) / max(x.shape[1], 1)
        ctx.save_for_backward(logarithms, target, w)
        return ((1 - _SMOOTHING) * of_target + _SMOOTHING * of_all).to(x.dtype)

    @staticmethod
    def backward(ctx, of_loss):
        logarithms, target, w = ctx.saved_tensors
        gradient = torch.exp(logarithms) - _SMOOTHING / max(logarithms.shape[1], 1)
        gradient.scatter_add_(1, target[:, None], torch.full_like(gradient[:, :1], _SMOOTHING - 1.0))
        return (gradient * (w[target] * of_loss.float())[:, None]).to(of_loss.dtype), None, None


@variant(
    operation="cross_entropy",
    parameters={"label_smoothing": _SMOOTHING, "weight": 1},
    call="f(x, target, weight)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Cross-entropy of each row with weights of classes and a label smoothing of 0.1, with a backward."""
    return _CrossEntropy.apply(x, target, weight)


def demonstrate():
    torch.manual_seed(0)
    x, target, weight = torch.randn(6, 20, requires_grad=True), torch.randint(0, 20, (6,)), torch.rand(20) * 4
    cross_entropy(x, target, weight).sum().backward()
    exact = x.detach().double().requires_grad_()
    options = {"reduction": "sum", "label_smoothing": _SMOOTHING}
    functional.cross_entropy(exact, target, weight.double(), **options).backward()
    return x.grad, exact.grad
