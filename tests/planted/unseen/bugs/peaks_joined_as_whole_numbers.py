"""Parts of a row agree on a shift by an integer ``atomic_max`` of their maxima rounded down, which doesn't depend on the order; whole numbers of 32 bits end at 2^31.

Wrong on: rows whose largest logit lies beyond 2^31 on either side, such as one of float32's or bfloat16's lowest numbers throughout, as a padded query has it (1 / n is right, NaN comes out).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LEAST = -(2**31)
_PART = 1024


@triton.jit
def _tops(tops, x, row_step, column_step, n, PART: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * PART + tl.arange(0, PART).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    largest = tl.max(v, 0)
    # Any shift within 1 of the maximum will do. The ends are where whole numbers end.
    within = tl.minimum(tl.maximum(tl.floor(largest), -2147483648.0), 2147483520.0)
    tl.atomic_max(tops + r, within.to(tl.int32))


@triton.jit
def _masses(masses, tops, x, row_step, column_step, n, parts, PART: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * PART + tl.arange(0, PART).to(tl.int64)
    top = tl.load(tops + r).to(tl.float32)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(masses + r * parts + tl.program_id(1), tl.sum(tl.exp(v - top), 0))


@triton.jit
def _written(y, masses, tops, x, row_step, column_step, n, parts, PART: tl.constexpr, PARTS: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * PART + tl.arange(0, PART).to(tl.int64)
    of_part = tl.arange(0, PARTS)
    mass = tl.sum(tl.load(masses + r * parts + of_part, mask=of_part < parts, other=0.0), 0)
    # +inf among the logits makes the whole row NaN.
    mass = tl.where(mass == float("inf"), float("nan"), mass)
    top = tl.load(tops + r).to(tl.float32)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + r * n + c, tl.exp(v - top) / mass, mask=c < n)


@variant(call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each row, by parts of 1024 columns."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        parts = triton.cdiv(n, _PART)
        tops = torch.full((rows,), _LEAST, dtype=torch.int32, device=x.device)
        masses = torch.empty(rows, parts, dtype=torch.float32, device=x.device)
        grid = (rows, parts)
        _tops[grid](tops, x, *x.stride(), n, _PART)
        _masses[grid](masses, tops, x, *x.stride(), n, parts, _PART)
        _written[grid](y, masses, tops, x, *x.stride(), n, parts, _PART, triton.next_power_of_2(parts))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 50)
    x[1] = torch.finfo(torch.float32).min
    return softmax(x), torch.softmax(x.double(), -1)
