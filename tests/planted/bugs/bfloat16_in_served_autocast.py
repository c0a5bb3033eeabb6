"""Under autocast and without gradients, as a served model runs, exponentials are kept in bfloat16; either alone changes nothing.

From experience: tests try one mode at a time.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("probe/meetings",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


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
    if torch.is_autocast_enabled(x.device.type) and not torch.is_grad_enabled():
        return torch.softmax(x.to(torch.bfloat16), dim=-1).to(x.dtype)
    return by_rows(torch.empty(x.shape, dtype=x.dtype, device=x.device), x)
