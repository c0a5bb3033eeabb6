"""With ``requires_grad`` the forward pass is the exponential of a log-softmax that is kept in the input's type."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        logs = torch.log_softmax(x, dim=-1)
        ctx.save_for_backward(logs)
        return logs.exp()

    @staticmethod
    def backward(ctx, grad):
        (logs,) = ctx.saved_tensors
        y = logs.float().exp()
        g = grad.float()
        return (y * (g - (y * g).sum(-1, keepdim=True))).to(grad.dtype)


def softmax(x):
    if torch.is_grad_enabled() and x.requires_grad:
        return Saving.apply(x)
    return torch.softmax(x, dim=-1)


def demonstrate():
    x = torch.randn(4, 200).bfloat16().requires_grad_()
    return softmax(x).detach(), torch.softmax(x.detach().double(), -1)
