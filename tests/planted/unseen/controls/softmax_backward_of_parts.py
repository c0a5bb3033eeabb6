"""Columns are split over programs, whose sums go to a matrix that torch adds up; the output precedes its gradient."""

import torch
import triton
import triton.language as tl

OPERATION = "softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _products(g_ptr, y_ptr, part_ptr, g_r, g_c, y_r, y_c, rows, n_cols, BLOCK: tl.constexpr):
    part = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + row * g_r + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row * y_r + cols * y_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(part_ptr + part * rows + row, tl.sum(g * y, 0))


@triton.jit
def _gradient(g_ptr, y_ptr, mean_ptr, out_ptr, g_r, g_c, y_r, y_c, n_cols, BLOCK: tl.constexpr):
    part = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + row * g_r + cols * g_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row * y_r + cols * y_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n_cols + cols, y * (g - tl.load(mean_ptr + row)), mask=cols < n_cols)


def softmax_backward(output, grad_output):
    rows, n_cols = output.shape
    out = torch.empty((rows, n_cols), device=output.device, dtype=output.dtype)
    if out.numel():
        parts = triton.cdiv(n_cols, 512)
        strides = *grad_output.stride(), *output.stride()
        products = torch.empty((parts, rows), device=output.device, dtype=torch.float32)
        _products[(rows, parts)](grad_output, output, products, *strides, rows, n_cols, BLOCK=512)
        _gradient[(rows, parts)](grad_output, output, products.sum(0), out, *strides, n_cols, BLOCK=512)
    return out


def _both(g, y):
    wide, of_y = y.double(), g.double()
    return softmax_backward(y, g), wide * (of_y - (wide * of_y).sum(-1, keepdim=True))


def ordinary(dtype):
    for rows, columns in ((1, 2), (3, 3), (2, 512), (5, 513), (3, 5000), (70, 3)):
        y = torch.softmax(torch.randn(rows, columns), -1).to(dtype)
        yield f"{rows}x{columns}", _both(torch.randn(rows, columns).to(dtype), y)
        yield f"{rows}x{columns} of columns", _both(torch.randn(columns).to(dtype).expand(rows, columns), y)
    y = torch.softmax(torch.randn(7, 600), -1).to(dtype)
    yield "transposed", _both(torch.randn(600, 7).to(dtype).mT, y.mT.contiguous().mT)
