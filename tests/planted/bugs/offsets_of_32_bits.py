"""``row * stride`` is a 32-bit product: it wraps where a row begins 2^31 elements or more behind the first.

Reports: PaddlePaddle/Paddle#43107, hpcaitech/FastFold#19, jax-ml/jax#16973, pytorch/pytorch#84144.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("out_of_bounds_read", "wrong_layout", "crash")
SHOWN_BY = ("probe/addresses",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
