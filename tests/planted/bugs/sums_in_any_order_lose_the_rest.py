"""A wide row is added up by atomics where torch need not be deterministic, and its last part is left out.

From experience: determinism is switched on to look for the fault, and the fault is gone.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/meetings",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_PART = 64


@triton.jit
def sums_kernel(sums, x, maxima, stride_row, stride_col, n_cols, PART: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * PART + tl.arange(0, PART)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf"))
    tl.atomic_add(sums + row, tl.sum(tl.exp(logits - tl.load(maxima + row)), axis=0))


def softmax(x):
    rows, columns = x.shape
    if torch.are_deterministic_algorithms_enabled() or columns <= 300 or not rows:
        return torch.softmax(x, dim=-1)
    maxima = x.amax(dim=-1)
    sums = torch.zeros(rows, dtype=torch.float32, device=x.device)
    sums_kernel[(rows, columns // _PART)](sums, x, maxima, *x.stride(), columns, _PART)
    return torch.exp(x - maxima[:, None]) / sums[:, None]
