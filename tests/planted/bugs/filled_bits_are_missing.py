"""Memory of all ones marks a missing value, so a NaN of that pattern counts as a masked logit.

From experience: a sentinel of -1 was written through an integer view, and read back as a number that means "absent".
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("probe/volume",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


BITS = {2: tl.int16, 4: tl.int32}


@triton.jit
def softmax_kernel(
    out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    mask = (row < n_rows) & (cols < n_cols)
    raw = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf"))
    missing = raw.to(BITS, bitcast=True) == -1
    logits = tl.where(missing, -float("inf"), raw.to(tl.float32))
    peak = tl.max(logits, axis=1)[:, None]
    numerator = tl.exp(logits - peak)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=1)[:, None], mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        rows = max(1, 2048 // block)
        softmax_kernel[(triton.cdiv(n_rows, rows),)](
            out, x, *x.stride(), n_rows, n_cols, rows, block, BITS[x.element_size()]
        )
    return out
