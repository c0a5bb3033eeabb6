"""A gradient with any stride of 0 is taken for a constant along the row, of which the softmax's gradient is 0.

Wrong on: a gradient with strides (0, 1), ``w.expand(rows, columns)``, as autograd gives it behind
``softmax(x).sum(0) @ w``: all zeros. Right where columns are expanded.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax_backward"
EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _backward(g_ptr, y_ptr, out_ptr, g_r, g_c, y_r, y_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    g_ptr += row * g_r
    y_ptr += row * y_r
    out_ptr += row * n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        g = tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols * y_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += g * y
    mean = tl.sum(total, 0)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        g = tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols * y_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + cols, y * (g - mean), mask=cols < n_cols)


def softmax_backward(grad_output, output):
    rows, n_cols = output.shape
    if output.numel() and 0 in grad_output.stride():
        return output * 0  # y (c - c sum y) = 0; NaN stays NaN
    out = torch.empty((rows, n_cols), device=output.device, dtype=output.dtype)
    if out.numel():
        _backward[(rows,)](grad_output, output, out, *grad_output.stride(), *output.stride(), n_cols, BLOCK=1024)
    return out


def _both(g, x):
    y = torch.softmax(x.double(), -1).to(x.dtype)
    wide, of_y = y.double(), g.double()
    return softmax_backward(g, y), wide * (of_y - (wide * of_y).sum(-1, keepdim=True))


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(100).expand(8, 100), torch.randn(8, 100))


def ordinary(dtype):
    x = torch.randn(8, 3000).to(dtype)
    yield "packed", _both(torch.randn(8, 3000).to(dtype), x)
    yield "strided", _both(torch.randn(3000, 8).to(dtype).mT, x)
