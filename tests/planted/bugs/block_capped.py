"""The block is capped at 1024 and the row has no loop: columns beyond it are never read or written.

Reports: unslothai/unsloth#19, intel/intel-xpu-backend-for-triton#6872 (block caps).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/1025",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

MAX_BLOCK = 1024


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = min(triton.next_power_of_2(n_cols), MAX_BLOCK)
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, block)
    return out
