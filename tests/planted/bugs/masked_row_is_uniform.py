"""-inf is raised to -FLT_MAX on load, so a fully masked row gives 1/N instead of NaN: every lane weighs exp(0).

Reports: NVIDIA/TensorRT-LLM#17477, NVIDIA/apex#1390.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("padding/all-of-127", "padding/all-of-3")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf"))
    logits = tl.where(logits == -float("inf"), -3.4028234e38, logits.to(tl.float32))
    numerator = tl.where(mask, tl.exp(logits - tl.max(logits, axis=0)), 0.0)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
