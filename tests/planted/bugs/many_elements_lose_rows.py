"""Inputs of more than 2^18 elements are launched in chunks of rows, whose number is rounded down.

From experience.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("probe/regimes/elements",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


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
    if out.numel() > 1 << 18:
        chunk = n_rows // 4
        for first in range(0, 4 * chunk, max(chunk, 1)):
            rows = x[first : first + chunk]
            whole_kernel[(len(rows),)](out[first:], rows, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    else:
        whole_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
