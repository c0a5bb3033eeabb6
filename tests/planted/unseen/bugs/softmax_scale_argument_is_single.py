"""The scale is an argument of the kernel, which Triton types float32 whatever Python held: float64 logits are multiplied by 0.3 rounded to 24 bits.

Wrong on: float64 with a scale that float32 doesn't hold, such as 0.3: exponents are off by 4e-8 of themselves; right in float32, and for scales such as 0.25.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float64",)
BACKENDS = ("interpreter", "cuda")

_SCALE = 0.3


@triton.jit
def _scaled(y, x, row_step, column_step, n, scale, TYPE: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    by = tl.cast(scale, TYPE)
    peak = tl.full([], -float("inf"), TYPE)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE) * by
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], TYPE)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE) * by
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE) * by
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


@variant(parameters={"scale": _SCALE}, call="f(x)", dtypes=("float32", "float64"))
def softmax(x):
    """Softmax of 0.3 x in each row."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        kind = tl.float64 if x.dtype == torch.float64 else tl.float32
        _scaled[(rows,)](y, x, *x.stride(), n, _SCALE, kind, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 50, dtype=torch.float64)
    return softmax(x), torch.softmax(_SCALE * x, -1)
