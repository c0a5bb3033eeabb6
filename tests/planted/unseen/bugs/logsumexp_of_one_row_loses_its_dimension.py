"""The kernel's column of answers, [rows, 1], is squeezed: of one row alone nothing is left but a number without dimensions.

Wrong on: one row, [1, n], as the last batch of an epoch or one request alone: the answer has the shape () in place of (1,), and a loop over it, or ``torch.cat``, fails. Two rows and more are right, and none.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_shape",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _folded(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    shift = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - shift)
    tl.store(out + r, shift + tl.log(tl.sum(mass, 0)))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32."""
    rows, n = x.shape
    out = torch.full((rows, 1), -float("inf"), dtype=torch.float32, device=x.device)
    if x.numel():
        _folded[(rows,)](out, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return out.squeeze()


def _both(x):
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(1, 20))
