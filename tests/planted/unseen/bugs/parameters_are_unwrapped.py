"""Subclasses of tensors are unwrapped by ``x.data`` for the launcher, and ``nn.Parameter`` is one: learnt mixing weights get no gradient.

Wrong on: the gradient of ``softmax(parameter)``. Values are right, and so is the gradient of any plain tensor.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(
            peak, tl.max(tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0)
        )
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(
            tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak
        )
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            _forward[(x.shape[0],)](y, x, *x.stride(), x.shape[1], min(1024, triton.next_power_of_2(x.shape[1])))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        p, g = y.float(), grad.float()
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(y.dtype)


def softmax(x):
    """Softmax of each row."""
    if type(x) is not torch.Tensor:
        # Wrappers such as DTensor's local part carry nothing that the kernel can launch with.
        x = x.data
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.nn.Parameter(torch.randn(3, 8)), torch.randn(3, 8)
    other = x.detach().double().requires_grad_()
    ((torch.softmax(other, -1) * w.double()).sum()).backward()
    found = (softmax(x) * w).sum()
    if found.requires_grad:
        found.backward()
    return torch.zeros_like(x) if x.grad is None else x.grad, other.grad
