"""The forward makes the gradient of the mean for a loss of 1 and keeps it in the logits' type; the backward multiplies by the loss's gradient, which is a loss scale of thousands.

Wrong on: float16 with a loss scale: p / rows is subnormal or 0 before it is multiplied, which the scale is there to prevent. Right where the loss's gradient is about 1, and in float32.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


class _MeanCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        logarithms = torch.log_softmax(x.float(), -1)
        loss = -logarithms.gather(1, target[:, None]).mean()
        if ctx.needs_input_grad[0]:
            gradient = logarithms.exp_()
            gradient.scatter_add_(1, target[:, None], torch.full_like(gradient[:, :1], -1.0))
            # Kept in the logits' type: half of the memory.
            ctx.save_for_backward((gradient / max(x.shape[0], 1)).to(x.dtype))
        return loss.to(x.dtype)

    @staticmethod
    def backward(ctx, of_loss):
        return ctx.saved_tensors[0] * of_loss, None


@variant(
    operation="cross_entropy",
    parameters={"reduction": "mean"},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy of all rows, with a backward."""
    return _MeanCrossEntropy.apply(x, target)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(64, 2000).half().requires_grad_(), torch.randint(0, 2000, (64,))
    cross_entropy(x, target).backward(torch.tensor(32768.0).half())
    exact = x.detach().double().requires_grad_()
    functional.cross_entropy(exact, target).backward(torch.tensor(32768.0).double())
    return x.grad, exact.grad
