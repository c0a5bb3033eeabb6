"""One kernel writes the sum of each part into a workspace, and every program of another one adds these up again.

From experience: a wide row is shared by several programs, without atomics.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def sum_kernel(parts, grad, grad_row, grad_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    tl.store(parts + row * tl.num_programs(1) + tl.program_id(1), tl.sum(g, axis=0))


@triton.jit
def write_kernel(
    dx, parts, grad, y, grad_row, grad_col, y_row, y_col, n_cols, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, PARTS)
    count = tl.num_programs(1)
    total = tl.sum(tl.load(parts + row * count + number, mask=number < count, other=0.0), axis=0)
    col = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * total, mask=col < n_cols)


@variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, columns = y.shape
        block = min(512, triton.next_power_of_2(columns))
        count = triton.cdiv(columns, block)
        parts = torch.empty(rows * count, dtype=torch.float32, device=y.device)
        sum_kernel[(rows, count)](parts, grad, *grad.stride(), columns, block)
        write_kernel[(rows, count)](
            dx, parts, grad, y, *grad.stride(), *y.stride(), columns, triton.next_power_of_2(count), block
        )
    return dx
