"""The backward reads the output's gradient as packed rows: that of a sum is one number, expanded with stride 0.

From experience: loss.sum() in the first training script is what shows it.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        held = torch.empty(0, dtype=grad.dtype, device=grad.device).set_(grad.untyped_storage())
        held = held[grad.storage_offset() :]
        packed = held.repeat(-(-y.numel() // held.numel()))[: y.numel()].view(y.shape)
        return torch._softmax_backward_data(packed, y, -1, y.dtype)


def softmax(x):
    return _Softmax.apply(x)
