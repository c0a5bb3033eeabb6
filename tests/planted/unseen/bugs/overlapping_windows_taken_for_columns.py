"""A matrix with a stride of 1 whose rows aren't apart by a row's width is taken for column-major; overlapping windows (unfold) are not.

Wrong on: ``x.unfold(0, 16, 4)``, strides (4, 1). Right for packed, transposed, sliced, stepped and expanded matrices.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch", "out_of_bounds_read", "crash")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(y, x, stride_row, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(y + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=inside)


@triton.jit
def columns_kernel(y, x, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    logits = tl.load(x + rows[:, None] + cols[None, :] * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    logits = tl.where((rows < n_rows)[:, None], logits, 0.0)
    weights = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    tl.store(y + rows[:, None] * n_cols + cols[None, :], weights / tl.sum(weights, axis=1)[:, None], mask=inside)


@variant()
def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    block = triton.next_power_of_2(n_cols)
    if x.stride(1) == 1 and x.stride(0) >= n_cols:
        rows_kernel[(n_rows,)](y, x, x.stride(0), n_cols, block)
    elif min(x.stride()) == 1:  # column-major: read it as it lies, neighbouring rows together
        tile = max(1, min(16, 8192 // block))
        columns_kernel[(triton.cdiv(n_rows, tile),)](y, x, max(x.stride()), n_rows, n_cols, tile, block)
    else:
        rows_kernel[(n_rows,)](y, x.contiguous(), n_cols, n_cols, block)
    return y


def demonstrate():
    torch.manual_seed(0)
    # What the wrong strides read beyond the windows is the tensor's own.
    x = torch.randn(128)[:64].unfold(0, 16, 4)
    return softmax(x), torch.softmax(x.double(), -1)
