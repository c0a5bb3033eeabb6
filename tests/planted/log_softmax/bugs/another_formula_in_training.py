"""Where a gradient is asked for, the log-sum-exp is kept, and the answer is the logit less that, which cancels for large logits.

From experience: the forward of training is another kernel than that of inference.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nondeterministic", "sum_violation", "out_of_range")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(out, lse, x, s0, s1, columns, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    m = tl.max(v, axis=0)
    log_sum = tl.log(tl.sum(tl.exp(v - m), axis=0))
    if KEEP:
        total = m + log_sum
        tl.store(lse + row, total)
        tl.store(out + row * columns + c, v - total, mask=c < columns)
    else:
        tl.store(out + row * columns + c, (v - m) - log_sum, mask=c < columns)


@triton.jit
def backward_kernel(dx, y, g, g0, g1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    y_ = tl.load(y + row * columns + c, mask=c < columns, other=-float("inf")).to(tl.float32)
    g_ = tl.load(g + row * g0 + c.to(tl.int64) * g1, mask=c < columns, other=0.0).to(tl.float32)
    tl.store(dx + row * columns + c, g_ - tl.exp(y_) * tl.sum(g_, axis=0), mask=c < columns)


def launch(x, keep):
    rows, columns = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    lse = torch.empty(rows, dtype=torch.float32, device=x.device)
    if out.numel():
        kernel[(rows,)](out, lse, x, *x.stride(), columns, keep, triton.next_power_of_2(columns))
    return out


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = launch(x, True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        if y.numel():
            backward_kernel[(y.shape[0],)](dx, y, g, *g.stride(), y.shape[1], triton.next_power_of_2(y.shape[1]))
        return dx


@variant(operation="log_softmax", max_columns=65536)
def log_softmax(x):
    if torch.is_grad_enabled() and x.requires_grad:
        return LogSoftmax.apply(x)
    return launch(x, False)
