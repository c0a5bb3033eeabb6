"""64 rows and more of over 256 columns go two to a program, whose second row is read one column late.

From experience.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("probe/regimes/rows",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    late = (rows % 2 == 1) & (cols == n_cols - 1)
    mask = (rows < n_rows) & (cols < n_cols) & ~late
    logits = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=1, keep_dims=True))
    tl.store(out + rows * n_cols + cols, weights / tl.sum(weights, axis=1, keep_dims=True), mask=mask)


@triton.jit
def whole_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    if n_rows >= 64 and n_cols > 256:
        grid = (triton.cdiv(n_rows, 2),)
        rows_kernel[grid](out, x, *x.stride(), n_rows, n_cols, 2, triton.next_power_of_2(n_cols))
    else:
        whole_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
