"""Column-major input takes a row per lane and folds one column after the other into a logarithm; far from 0 a fold adds less than half a unit in the last place, and nothing is added any more.

Wrong on: transposed input of many columns whose logits lie around 1e4: from 2000 columns on the answer stops growing. Right for packed rows, and for logits near 0.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _by_columns(lse, x, row_step, column_step, rows, n, LANES: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    folded = tl.full([LANES], -float("inf"), tl.float32)
    for column in range(n):
        at = r * row_step + tl.cast(column, tl.int64) * column_step
        v = tl.load(x + at, mask=r < rows, other=0.0).to(tl.float32)
        larger = tl.maximum(folded, v)
        smaller = tl.minimum(folded, v)
        distance = tl.where(larger == smaller, 0.0, smaller - larger)
        folded = larger + tl.log(1.0 + tl.exp(distance))
    tl.store(lse + r, folded, mask=r < rows)


@triton.jit
def _by_rows(lse, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(tl.abs(larger) == float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    shift = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)
    tl.store(lse + r, shift + tl.log(mass))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """The logarithm of each row's sum of exponentials."""
    rows, n = x.shape
    lse = torch.full((rows,), -float("inf"), dtype=x.dtype, device=x.device)
    if x.numel():
        if x.stride(0) == 1 and x.stride(1) > 1:
            lanes = min(128, triton.next_power_of_2(rows))
            _by_columns[(triton.cdiv(rows, lanes),)](lse, x, *x.stride(), rows, n, lanes)
        else:
            _by_rows[(rows,)](lse, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return lse


def demonstrate():
    torch.manual_seed(0)
    x = (torch.randn(16000, 4) * 0.1 + 1e4).t()
    return logsumexp(x), torch.logsumexp(x.double(), -1)
