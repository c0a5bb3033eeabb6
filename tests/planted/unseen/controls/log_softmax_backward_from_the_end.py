"""Two rows to a program, in tiles of 256 columns from the last and ragged one to the first."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _backward(g_ptr, y_ptr, out_ptr, g_r, g_c, y_r, y_c, rows, n_cols, tiles, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * 2 + tl.arange(0, 2)
    parts = tl.zeros((2, BLOCK), tl.float32)
    for i in range(tiles):
        cols = ((tiles - 1 - i) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        inside = (row[:, None] < rows) & (cols[None, :] < n_cols)
        parts += tl.load(g_ptr + row[:, None] * g_r + cols[None, :] * g_c, mask=inside, other=0.0).to(tl.float32)
    total = tl.sum(parts, 1)
    for i in range(tiles):
        cols = ((tiles - 1 - i) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        inside = (row[:, None] < rows) & (cols[None, :] < n_cols)
        g = tl.load(g_ptr + row[:, None] * g_r + cols[None, :] * g_c, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + row[:, None] * y_r + cols[None, :] * y_c, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + row[:, None] * n_cols + cols[None, :], g - tl.exp(y) * total[:, None], mask=inside)


def log_softmax_backward(grad_output, output):
    rows, n_cols = output.shape
    out = torch.empty((rows, n_cols), device=output.device, dtype=output.dtype)
    if out.numel():
        _backward[(triton.cdiv(rows, 2),)](
            grad_output,
            output,
            out,
            *grad_output.stride(),
            *output.stride(),
            rows,
            n_cols,
            triton.cdiv(n_cols, 256),
            BLOCK=256,
        )
    return out


def _both(g, y):
    wide = g.double()
    return log_softmax_backward(g, y), wide - torch.exp(y.double()) * wide.sum(-1, keepdim=True)


def ordinary(dtype):
    for rows, columns in ((1, 1), (3, 2), (2, 256), (5, 257), (3, 5000), (70, 3)):
        y = torch.log_softmax(torch.randn(rows, columns), -1).to(dtype)
        yield f"{rows}x{columns}", _both(torch.randn(rows, columns).to(dtype), y)
        yield f"{rows}x{columns} of rows", _both(torch.randn(rows, 1).to(dtype).expand(rows, columns), y)
        yield f"{rows}x{columns} of columns", _both(torch.randn(columns).to(dtype).expand(rows, columns), y)
    y = torch.log_softmax(torch.randn(7, 300), -1).to(dtype)
    yield "transposed", _both(torch.randn(300, 7).to(dtype).mT, y.mT.contiguous().mT)
