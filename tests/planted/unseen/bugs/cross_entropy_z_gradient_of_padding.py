"""The gradient of the z-loss, 2 z lse softmax, is added to ignored rows too, whose loss is 0.

Wrong on: gradients of rows with the target -100 with a z_loss above 0. The loss is right, and so are gradients without
ignored rows or without z_loss.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index, z_loss):
        wide = logits.float()
        lse = torch.logsumexp(wide, 1)
        kept = target != ignore_index
        index = torch.where(kept, target, 0)
        loss = lse - wide.gather(1, index[:, None])[:, 0] + z_loss * lse * lse
        ctx.save_for_backward(logits, index, kept, lse)
        ctx.z_loss = z_loss
        return torch.where(kept, loss, 0.0).to(logits.dtype)

    @staticmethod
    def backward(ctx, grad):
        logits, index, kept, lse = ctx.saved_tensors
        p = torch.exp(logits.float() - lse[:, None])
        of_x = p.scatter_add(1, index[:, None], -torch.ones_like(p[:, :1]))
        of_x = torch.where(kept[:, None], of_x, 0.0)
        of_x = of_x + (2 * ctx.z_loss * lse)[:, None] * p
        return (of_x * grad.float()[:, None]).to(logits.dtype), None, None, None


@variant(
    operation="cross_entropy", parameters={"ignore_index": -100, "z_loss": 1e-2}, call="f(x, target)", backward=True
)
def cross_entropy(logits, target, ignore_index=-100, z_loss=1e-2):
    return _Loss.apply(logits, target, ignore_index, z_loss)


def _exact(x, target, z_loss):
    loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
    return loss + torch.where(target == -100, 0.0, z_loss * torch.logsumexp(x, 1).square())


def _gradients(x, target, z_loss=1e-2):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target, z_loss=z_loss).sum().backward()
    _exact(exact, target, z_loss).sum().backward()
    return given.grad, exact.grad


def _given(dtype):
    x, target = torch.randn(6, 40).to(dtype), torch.randint(0, 40, (6,))
    target[2] = -100
    return x, target


def demonstrate():
    torch.manual_seed(0)
    return _gradients(*_given(torch.float32))


def ordinary(dtype):
    x, target = _given(dtype)
    yield "loss", (cross_entropy(x, target), _exact(x.double(), target, 1e-2))
    yield "no padding", _gradients(x, target.abs() % 40)
    yield "no z-loss", _gradients(x, target, 0.0)
