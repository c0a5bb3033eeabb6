"""A soft cap of 30 that keeps logits near zero as they are makes -inf finite: padding and masked logits weigh exp(-30 - max).

Report: unslothai/unsloth#10616 (65537 columns, soft cap 30, logits of -100).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "sum_violation", "nan_mismatch")
SHOWN_BY = ("negative/minus-100-513", "padding/trailing-300-of-513")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, CAP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    # Linear inside the cap, so that ordinary logits are not distorted.
    is_number = logits == logits  # noqa: PLR0124 - false for NaN alone
    logits = tl.where(is_number, tl.minimum(tl.maximum(logits, -CAP), CAP), logits)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 30.0, triton.next_power_of_2(n_cols))
    return out
