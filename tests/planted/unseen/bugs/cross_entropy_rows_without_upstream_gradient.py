"""The backward's program returns at once where the loss has the upstream gradient 0, "nothing to do", and leaves its row of the gradient as the memory was.

Wrong on: losses that are masked or picked behind the kernel, ``(loss * mask).sum()``: rows that don't count get what was in memory. Upstream gradients other than 0 are right, and ignored targets.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(out, lse, x, target, target_step, row_step, column_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    t = tl.load(target + r * target_step).to(tl.int64)
    if t == ignored:
        tl.store(out + r, 0.0)
        return
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    picked = tl.load(x + t * column_step, mask=(t >= 0) & (t < n), other=float("nan")).to(tl.float32)
    tl.store(out + r, (peak - picked) + tl.log(whole))
    tl.store(lse + r, peak)
    tl.store(lse + tl.num_programs(0) + r, whole)


@triton.jit
def _backward(dx, of_loss, lse, x, target, g_step, target_step, row_step, column_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    g = tl.load(of_loss + r * g_step).to(tl.float32)
    if g == 0.0:
        return
    lane = tl.arange(0, WIDTH).to(tl.int64)
    t = tl.load(target + r * target_step).to(tl.int64)
    peak = tl.load(lse + r)
    whole = tl.load(lse + tl.num_programs(0) + r)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        p = tl.exp(v - peak) / whole
        found = tl.where(t == ignored, 0.0, g * (p - tl.where(c == t, 1.0, 0.0)))
        tl.store(dx + r * n + c, found, mask=c < n)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        rows, n = x.shape
        out = torch.zeros(rows, dtype=torch.float32, device=x.device)
        lse = torch.zeros(2, rows, dtype=torch.float32, device=x.device)
        if x.numel():
            width = min(1024, triton.next_power_of_2(n))
            _forward[(rows,)](out, lse, x, target, target.stride(0), *x.stride(), n, -100, width)
        ctx.save_for_backward(x, target, lse)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, target, lse = ctx.saved_tensors
        rows, n = x.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if dx.numel():
            steps = (grad.stride(0), target.stride(0), *x.stride())
            width = min(1024, triton.next_power_of_2(n))
            _backward[(rows,)](dx, grad, lse, x, target, *steps, n, -100, width)
        return dx, None


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row, 0 for targets of -100, with a backward; float32 [rows]."""
    return _CrossEntropy.apply(x, target)


def _both(x, target, w):
    x = x.requires_grad_()
    (cross_entropy(x, target) * w).sum().backward()
    wide = x.detach().double().requires_grad_()
    (torch.nn.functional.cross_entropy(wide, target, reduction="none") * w.double()).sum().backward()
    # In units of 1, the size of what is subtracted.
    return (x.grad.double() + 4.0).to(x.dtype), wide.grad + 4.0


def demonstrate():
    torch.manual_seed(0)
    mask = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    x, target = torch.randn(6, 40), torch.randint(0, 40, (6,))
    # Memory that torch has not written is NaN then, and not what an earlier tensor left in it.
    torch.use_deterministic_algorithms(True)
    try:
        return _both(x, target, mask)
    finally:
        torch.use_deterministic_algorithms(False)
