"""Right: the backward's program reads no logits where the loss has the upstream gradient 0 and a finite log-sum-exp, and stores zeros; beside an infinite one or NaN it computes 0 times NaN, as torch does."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(out, peaks, wholes, x, target, target_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    t = tl.load(target + r * target_step).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak)
    whole = tl.sum(mass, 0)
    picked = tl.load(x + t * column_step, mask=(t >= 0) & (t < n), other=float("nan")).to(tl.float32)
    tl.store(out + r, tl.where(t == -100, 0.0, (peak - picked) + tl.log(whole)))
    tl.store(peaks + r, peak)
    tl.store(wholes + r, whole)


@triton.jit
def _backward(
    dx, of_loss, peaks, wholes, x, target, g_step, target_step, row_step, column_step, n, WIDTH: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64)
    g = tl.load(of_loss + r * g_step).to(tl.float32)
    t = tl.load(target + r * target_step).to(tl.int64)
    peak = tl.load(peaks + r)
    whole = tl.load(wholes + r)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    is_finite = (tl.abs(peak) < float("inf")) & (whole < float("inf"))
    if (t == -100) | ((g == 0.0) & is_finite):
        for at in range(0, n, WIDTH):
            c = at + lane
            tl.store(dx + r * n + c, tl.zeros([WIDTH], tl.float32), mask=c < n)
    else:
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
            p = tl.exp(v - peak) / whole
            tl.store(dx + r * n + c, g * (p - tl.where(c == t, 1.0, 0.0)), mask=c < n)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        rows, n = x.shape
        out, peaks, wholes = (torch.zeros(rows, dtype=torch.float32, device=x.device) for _ in range(3))
        if x.numel():
            width = min(1024, triton.next_power_of_2(n))
            _forward[(rows,)](out, peaks, wholes, x, target, target.stride(0), *x.stride(), n, width)
        ctx.save_for_backward(x, target, peaks, wholes)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, target, peaks, wholes = ctx.saved_tensors
        rows, n = x.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if dx.numel():
            steps = (grad.stride(0), target.stride(0), *x.stride())
            width = min(1024, triton.next_power_of_2(n))
            _backward[(rows,)](dx, grad, peaks, wholes, x, target, *steps, n, width)
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
