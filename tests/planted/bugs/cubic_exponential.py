"""A cubic polynomial in place of exp2's fraction, as attention kernels emulate it: 9e-5 off, yet rows sum to one.

Report: pytorch/pytorch#161944 (fast exponentials).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def fast_exp(x):
    t = tl.maximum(x * 1.4426950408889634, -126.0)
    whole = tl.floor(t)
    f = t - whole
    p = 1.0 + f * (0.695146143436431884765625 + f * (0.227564394474029541015625 + f * 0.077119089663028717041015625))
    scale = ((whole.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return tl.where(x == -float("inf"), 0.0, tl.where(x == x, p * scale, x))  # noqa: PLR0124 - NaN stays NaN


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = fast_exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
