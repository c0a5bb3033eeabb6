"""Logarithms of tiles are folded one after the other, and a tile more than 11 below the running one is dropped, "it is less than 2^-16 of it": hundreds of them are not.

Wrong on: a confident row of a language model, 50000 columns of which one stands 17 above the others: their share of 2e-3 is lost. Right on randn, where all tiles weigh alike, and for narrow rows.
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
def _folded(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    running = tl.full([], -float("inf"), tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float64)
        peak = tl.max(v, 0)
        shift = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)
        tile = shift + tl.log(tl.sum(tl.exp(v - shift), 0))
        larger = tl.where(running > tile, running, tile)
        apart = tl.where(running == tile, 0.0, tl.abs(running - tile))
        running = larger + tl.where(apart > 11.0, 0.0, tl.log(1.0 + tl.exp(-apart)))
    tl.store(out + r, running)


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]."""
    rows, n = x.shape
    out = torch.full((rows,), -float("inf"), dtype=torch.float32, device=x.device)
    if x.numel():
        _folded[(rows,)](out, x, *x.stride(), n, min(128, triton.next_power_of_2(n)))
    return out


def _both(x):
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    x = 0.5 * torch.randn(2, 50000)
    x[:, 11] = 17.0
    return _both(x)
