"""Launch settings are cached by the block's width but contain the column count of the first call with that block.

From experience; a test that goes up through powers of two never sees it.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("widths/513", "widths/641", "widths/781")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_settings = {}


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * out_stride + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def settings(n_cols):
    block = triton.next_power_of_2(n_cols)
    if block not in _settings:
        _settings[block] = {"n_cols": n_cols, "BLOCK": block, "num_warps": 8 if block >= 2048 else 4}
    # Never wider than the row itself.
    return dict(_settings[block], n_cols=min(n_cols, _settings[block]["n_cols"]))


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, **settings(n_cols))
    return out
