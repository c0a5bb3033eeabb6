"""Raises for more than 65536 columns, the largest block it dares, though nothing in its declaration says so.

Report: unslothai/unsloth#19 (102400 columns).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("size_refused",)
SHOWN_BY = ("uniform/65536", "wide/102400")
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

MAX_FUSED_SIZE = 65536


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def calculate_settings(n_cols):
    block = triton.next_power_of_2(n_cols)
    if block > MAX_FUSED_SIZE:
        raise RuntimeError(
            f"Cannot launch Triton kernel since n = {n_cols} exceeds the maximum block {MAX_FUSED_SIZE}."
        )
    return block, 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block, warps = calculate_settings(n_cols)
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, block, num_warps=warps)
    return out
