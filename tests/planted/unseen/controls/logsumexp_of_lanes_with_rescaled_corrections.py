"""Right: a lane takes a row, as column-major input asks for, sixteen columns at a time; what each sum loses is kept beside it, and is rescaled with it."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _by_lanes(lse, x, row_step, column_step, rows, n, LANES: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    inside = r < rows
    peak = tl.full([LANES], -float("inf"), tl.float32)
    mass = tl.zeros([LANES], tl.float32)
    lost = tl.zeros([LANES], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + tl.arange(0, WIDTH).to(tl.int64)
        place = r[:, None] * row_step + c[None, :] * column_step
        v = tl.load(x + place, mask=inside[:, None] & (c < n)[None, :], other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 1))
        shift = tl.where(tl.abs(larger) == float("inf"), 0.0, larger)
        factor = tl.exp(peak - shift)
        mass *= factor
        lost *= factor
        term = tl.sum(tl.exp(v - shift[:, None]), 1) - lost
        grown = mass + term
        # Where the sum is infinite nothing is lost that counts.
        lost = tl.where(tl.abs(grown) == float("inf"), 0.0, (grown - mass) - term)
        mass = grown
        peak = tl.where(larger == float("inf"), 0.0, larger)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    tl.store(lse + r, shift + tl.log(mass), mask=inside)


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """The logarithm of each row's sum of exponentials."""
    rows, n = x.shape
    lse = torch.full((rows,), -float("inf"), dtype=x.dtype, device=x.device)
    if x.numel():
        lanes = min(32, triton.next_power_of_2(rows))
        width = min(64, triton.next_power_of_2(n))
        _by_lanes[(triton.cdiv(rows, lanes),)](lse, x, *x.stride(), rows, n, lanes, width)
    return lse
