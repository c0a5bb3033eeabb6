"""A path for rows whose columns lie apart numbers them in 16 bits: beyond 32768 columns it reads before the row.

From experience; packed rows take another path, and strided inputs in tests are narrow.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "nan_mismatch", "ulp_exceeds_bound", "sum_violation", "crash")
SHOWN_BY = ("probe/meetings",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, PACKED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    places = cols.to(tl.int64) if PACKED else cols.to(tl.int16).to(tl.int64)
    logits = tl.load(x + row * stride_row + places * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@variant(max_columns=65536)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, x.stride(1) == 1, block, num_warps=16)
    return out
