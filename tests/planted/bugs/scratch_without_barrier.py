"""Threads leave exponentials in global scratch and read each other's back in reverse order, without a barrier between.

Reports: JustVugg/colibri#1098, ggml-org/llama.cpp#26385. The interpreter runs a program in order and can't show it.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nondeterministic", "unwritten_output", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("widths/4096", "widths/1024", "probe/determinism")
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, scratch, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    total = tl.sum(numerator, axis=0)
    tl.store(scratch + row * n_cols + cols, numerator, mask=cols < n_cols)
    mirrored = n_cols - 1 - cols
    numerator = tl.load(scratch + row * n_cols + mirrored, mask=cols < n_cols, other=0.0)
    tl.store(out + row * n_cols + mirrored, numerator / total, mask=cols < n_cols)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        scratch = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        softmax_kernel[(n_rows,)](out, scratch, x, *x.stride(), n_cols, block, num_warps=16)
    return out
