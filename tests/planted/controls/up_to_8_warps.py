"""Takes a number of warps and refuses more than 8; allocates in a device context, as library code does.

From experience: refusing an option out loud breaks no promise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf"))
    logits = logits.to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, exponentials / tl.sum(exponentials, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x, num_warps=4):
    if num_warps > 8:
        raise ValueError(f"num_warps is {num_warps}; expected at most 8")
    n_rows, n_cols = x.shape
    with torch.device(x.device):
        out = torch.empty(x.shape, dtype=x.dtype)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols), num_warps=num_warps)
    return out
