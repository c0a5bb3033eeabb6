"""Each row's log-sum-exp is kept for the backward in a workspace that the next forward of as many rows writes to.

Wrong on: two forwards before a backward, ``(cross_entropy(a, t).sum() + cross_entropy(b, t).sum()).backward()``: the
gradient of a. Right for one forward with its backward, and where numbers of rows differ.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_statistics = {}


@triton.jit
def _forward(x_ptr, t_ptr, out_ptr, lse_ptr, stride_r, stride_c, n_cols, ignore_index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    target = tl.load(t_ptr + row)
    counts = (target != ignore_index) & (target >= 0) & (target < n_cols)
    of_target = tl.load(x_ptr + target * stride_c, mask=counts, other=0.0).to(tl.float32)
    tl.store(lse_ptr + row, m + tl.log(s))
    tl.store(out_ptr + row, tl.where(counts, tl.log(s) + m - of_target, 0.0))


@triton.jit
def _backward(g_ptr, x_ptr, t_ptr, out_ptr, lse_ptr, stride_r, stride_c, n_cols, ignore_index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    target = tl.load(t_ptr + row)
    p = tl.exp(x - tl.load(lse_ptr + row)) - tl.where(cols == target, 1.0, 0.0)
    g = tl.load(g_ptr + row).to(tl.float32)
    tl.store(out_ptr + row * n_cols + cols, tl.where(target == ignore_index, 0.0, g * p), mask=cols < n_cols)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index=-100):
        rows, n_cols = logits.shape
        target = target.contiguous()
        out = torch.zeros((rows,), device=logits.device, dtype=logits.dtype)
        key = logits.device, rows
        if key not in _statistics:
            _statistics[key] = torch.empty((rows,), device=logits.device, dtype=torch.float32)
        lse = _statistics[key]
        if logits.numel():
            _forward[(rows,)](logits, target, out, lse, *logits.stride(), n_cols, ignore_index, BLOCK=1024)
        ctx.save_for_backward(logits, target)
        ctx.lse, ctx.ignore_index = lse, ignore_index
        return out

    @staticmethod
    def backward(ctx, grad):
        logits, target = ctx.saved_tensors
        rows, n_cols = logits.shape
        of_x = torch.empty((rows, n_cols), device=logits.device, dtype=logits.dtype)
        if of_x.numel():
            _backward[(rows, triton.cdiv(n_cols, 1024))](
                grad.contiguous(), logits, target, of_x, ctx.lse, *logits.stride(), n_cols, ctx.ignore_index, BLOCK=1024
            )
        return of_x, None, None


def cross_entropy(logits, target, ignore_index=-100):
    """One loss for each row."""
    return CrossEntropy.apply(logits, target, ignore_index)


def _gradients(x, target, between=None):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    loss = cross_entropy(given, target)
    if between is not None:
        cross_entropy(between, target[: len(between)])
    loss.sum().backward()
    torch.nn.functional.cross_entropy(exact, target, reduction="sum").backward()
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    a, b, target = torch.randn(8, 100), 3 * torch.randn(8, 100), torch.randint(0, 100, (8,))
    return _gradients(a, target, b)


def ordinary(dtype):
    x, target = torch.randn(8, 100).to(dtype), torch.randint(0, 100, (8,))
    target[3] = -100
    exact = torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
    yield "loss", (cross_entropy(x, target), exact)
    yield "gradient", _gradients(x, target)
    yield "other rows", _gradients(x, target, x[:5])
