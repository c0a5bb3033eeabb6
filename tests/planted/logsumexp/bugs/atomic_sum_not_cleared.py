"""Parts add to a workspace that is kept by row count and cleared when it is made, not when it is used.

From experience: the first call of each test is right.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("nondeterministic", "ulp_exceeds_bound", "output_reused")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def logsumexp_kernel(total, x, maximum, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pointers = x + row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(pointers, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.atomic_add(total + row, tl.sum(tl.exp(logits - tl.load(maximum + row)), axis=0))


_totals = {}


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    if not x.numel():
        return torch.full((n_rows,), -torch.inf, device=x.device)
    if (n_rows, x.device) not in _totals:
        _totals[n_rows, x.device] = torch.zeros(n_rows, device=x.device)
    total = _totals[n_rows, x.device]
    maximum = x.amax(-1).float()
    shift = torch.where(maximum == -torch.inf, 0.0, maximum)
    logsumexp_kernel[(n_rows, triton.cdiv(n_cols, 64))](total, x, shift, *x.stride(), n_cols, 64)
    return shift + total.log()
