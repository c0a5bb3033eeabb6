"""A persistent grid of 12 programs takes at most two rows each.

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
def persistent_kernel(out, x, stride_row, stride_col, n_rows, n_cols, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), tl.minimum(n_rows, 24), 12):
        cols = tl.arange(0, BLOCK).to(tl.int64)
        logits = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(
            tl.float32
        )
        weights = tl.exp(logits - tl.max(logits, axis=0))
        tl.store(out + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    persistent_kernel[(min(n_rows, 12),)](out, x, *x.stride(), n_rows, n_cols, triton.next_power_of_2(n_cols))
    return out
