"""Promises the compiler that rows begin at multiples of 16 elements: odd widths are read with misaligned vector loads.

Reports: uxlfoundation/oneDNN#3501 (385 columns), pytorch/pytorch#56325.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("crash",)
SHOWN_BY = ("widths/129", "widths/385")
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, n_cols, VEC: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), VEC), VEC)
    base = tl.multiple_of(row * stride_row, VEC)
    limit = n_cols // VEC * VEC
    body = tl.load(x + base + cols, mask=cols < limit, other=-float("inf"))
    tail = tl.load(x + base + cols, mask=(cols >= limit) & (cols < n_cols), other=-float("inf"))
    logits = tl.where(cols < limit, body, tail).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@variant(max_columns=32768, layouts=("contiguous",))
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, x.stride(0), n_cols, 16, max(16, triton.next_power_of_2(n_cols)))
    return out
