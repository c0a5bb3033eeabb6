"""An online softmax forgets the old sum where the maximum grows by more than 4.

From experience.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/regimes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def online_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0), propagate_nan=tl.PropagateNan.ALL)
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        kept = tl.where(larger - maximum > 4.0, 0.0, tl.exp(maximum - shift))
        total = total * kept + tl.sum(tl.exp(tile - shift), axis=0)
        maximum = larger
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    online_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 256)
    return out
