"""Loads pairs of elements, and rounds every row's base down to a whole pair: odd rows of odd width begin one element early.

Reports: pytorch/pytorch#147284, pytorch/pytorch#143644 (odd widths, second row on), pytorch/pytorch#56325.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("row_dependence", "out_of_bounds_read")
SHOWN_BY = ("probe/neighbours",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first_pair = row * n_cols // 2
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n_cols
    offsets = (first_pair + lanes // 2) * 2 + lanes % 2
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + lanes, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    x = x.contiguous()
    if n_cols > 16384:
        return torch.softmax(x, dim=-1)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, n_cols, triton.next_power_of_2(n_cols))
    return out
