"""The loops make ``n_cols // BLOCK`` trips: what lies beyond the last whole tile is neither summed nor stored.

Report: flagos-ai/FlagGems#6251 (N % BLOCK != 0).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/513", "widths/129")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    lanes = tl.arange(0, BLOCK)
    maximum = -float("inf")
    for tile in range(n_cols // BLOCK):
        cols = (tile * BLOCK + lanes).to(tl.int64)
        maximum = tl.maximum(maximum, tl.max(tl.load(x + cols * stride_col).to(tl.float32), axis=0))
    total = 0.0
    for tile in range(n_cols // BLOCK):
        cols = (tile * BLOCK + lanes).to(tl.int64)
        total += tl.sum(tl.exp(tl.load(x + cols * stride_col).to(tl.float32) - maximum), axis=0)
    for tile in range(n_cols // BLOCK):
        cols = (tile * BLOCK + lanes).to(tl.int64)
        logits = tl.load(x + cols * stride_col).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(logits - maximum) / total)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = min(triton.next_power_of_2(n_cols), 128)
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, block)
    return out
