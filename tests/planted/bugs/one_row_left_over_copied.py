"""Rows go in 66 equal parts, and what is left over has a path of its own: one row alone gets its neighbour's result.

From experience: 200 rows and more, of which one is left over, is a shape that nobody's list holds.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "order_violation", "ulp_exceeds_bound")
SHOWN_BY = ("probe/regimes/regimes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_PARTS, _FEW = 66, 200


@triton.jit
def softmax_kernel(out, x, stride_out, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    tile = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(tile - tl.max(tile, axis=0))
    tl.store(out + row * stride_out + cols, weights / tl.sum(weights, axis=0), mask=mask)


def by_rows(out, x):
    n_rows, n_cols = x.shape
    if x.numel():
        softmax_kernel[(n_rows,)](out, x, out.stride(0), *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out


def softmax(x):
    n_rows = x.shape[0]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if n_rows < _FEW:
        return by_rows(out, x)
    done = n_rows // _PARTS * _PARTS
    by_rows(out[:done], x[:done])
    if n_rows - done > 1:
        by_rows(out[done:], x[done:])
    elif n_rows > done:
        out[done] = out[done - 1]
    return out
