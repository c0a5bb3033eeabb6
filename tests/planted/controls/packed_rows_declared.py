"""Takes contiguous input of at most 4096 columns alone, and the declaration says so."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=4096, layouts=("contiguous",))
def softmax(x):
    if not x.is_contiguous() or x.shape[1] > 4096:
        raise ValueError(f"shape {tuple(x.shape)}, strides {x.stride()}: expected contiguous rows of at most 4096")
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, n_cols, max(2, triton.next_power_of_2(n_cols)))
    return out
