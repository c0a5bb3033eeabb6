"""The input and each row's maximum and logarithm of the sum are kept, and the backward computes the output again."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
FUNCTION = "LogSoftmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(x_ptr, out_ptr, m_ptr, log_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    log = tl.log(s)
    tl.store(m_ptr + row, m)
    tl.store(log_ptr + row, log)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + cols, x - m - log, mask=cols < n_cols)


@triton.jit
def _backward(g_ptr, x_ptr, out_ptr, m_ptr, log_ptr, g_r, g_c, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    g_ptr += row * g_r
    out_ptr += row * n_cols
    m = tl.load(m_ptr + row)
    log = tl.load(log_ptr + row)
    parts = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        parts += tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(parts, 0)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        g = tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + cols, g - tl.exp(x - m - log) * total, mask=cols < n_cols)


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows, n_cols = x.shape
        out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
        m = torch.empty((rows,), device=x.device, dtype=torch.float32)
        log = torch.empty_like(m)
        if out.numel():
            _forward[(rows,)](x, out, m, log, *x.stride(), n_cols, BLOCK=1024)
        ctx.save_for_backward(x, m, log)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, m, log = ctx.saved_tensors
        out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        if out.numel():
            _backward[(x.shape[0],)](grad, x, out, m, log, *grad.stride(), *x.stride(), x.shape[1], BLOCK=1024)
        return out


def _gradients(x, above):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    LogSoftmax.apply(given).backward(above)
    torch.log_softmax(exact, -1).backward(above.double())
    return given.grad, exact.grad


def ordinary(dtype):
    for rows, columns in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0)):
        x = torch.randn(rows, columns).to(dtype)
        yield f"{rows}x{columns}", (LogSoftmax.apply(x), torch.log_softmax(x.double(), -1))
        yield f"{rows}x{columns} gradient", _gradients(x * 3, torch.randn(rows, columns).to(dtype))
        yield f"{rows}x{columns} of rows", _gradients(x, torch.randn(rows, 1).to(dtype).expand(rows, columns))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = -float("inf"), float("nan"), float("inf"), -float("inf")
    yield "special", (LogSoftmax.apply(x), torch.log_softmax(x.double(), -1))
    x = (torch.randn(30, 7) * 1e3).to(dtype).mT
    yield "transposed", (LogSoftmax.apply(x), torch.log_softmax(x.double(), -1))
