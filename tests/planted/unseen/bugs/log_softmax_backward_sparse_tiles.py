"""Tiles of 1024 columns in which the gradient is 0 are given 0: -exp(y) * sum(g) is left out there.

Wrong on: the gradient of an NLL loss, one nonzero number in each row, with more than 1024 columns. Right on dense
gradients, and on all of up to 1024 columns.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax_backward"
EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _backward(g_ptr, y_ptr, out_ptr, g_r, g_c, y_r, y_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    g_ptr += row * g_r
    y_ptr += row * y_r
    out_ptr += row * n_cols
    parts = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        parts += tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(parts, 0)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        g = tl.load(g_ptr + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
        if tl.sum(tl.abs(g), 0) != 0.0:
            y = tl.load(y_ptr + cols * y_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
            tl.store(out_ptr + cols, g - tl.exp(y) * total, mask=cols < n_cols)
        else:
            tl.store(out_ptr + cols, g, mask=cols < n_cols)


def log_softmax_backward(grad_output, output):
    rows, n_cols = output.shape
    out = torch.empty((rows, n_cols), device=output.device, dtype=output.dtype)
    if out.numel():
        _backward[(rows,)](grad_output, output, out, *grad_output.stride(), *output.stride(), n_cols, BLOCK=1024)
    return out


def _both(g, x):
    y = torch.log_softmax(x.double(), -1).to(x.dtype)
    wide = g.double()
    return log_softmax_backward(g, y), wide - torch.exp(y.double()) * wide.sum(-1, keepdim=True)


def _of_nll(rows, columns, dtype):
    g = torch.zeros(rows, columns)
    g[torch.arange(rows), torch.randint(0, columns, (rows,))] = -1.0
    return g.to(dtype)


def demonstrate():
    torch.manual_seed(0)
    return _both(_of_nll(4, 5000, torch.float32), torch.randn(4, 5000))


def ordinary(dtype):
    yield "one tile", _both(_of_nll(4, 1000, dtype), torch.randn(4, 1000).to(dtype))
    yield "dense", _both(torch.randn(4, 3000).to(dtype), torch.randn(4, 3000).to(dtype))
