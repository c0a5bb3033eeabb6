"""The log-sum-exp leaves the kernel in the input's type, as the loss does, and is squared there before the small factor of the z-loss is applied: 256 squared is infinite in float16.

Wrong on: float16 rows whose log-sum-exp is above 256 or below -256, which a z-loss is there to keep from growing; right below, and in bfloat16 but for its digits.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

from softcheck import variant

EXPECTED = ("inf_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

_Z_LOSS = 1e-4


@triton.jit
def _rows(losses, lses, x, target, row_step, column_step, target_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    place = tl.load(target + r * target_step)
    asked = (place >= 0) & (place < n)
    picked = tl.load(x + place * column_step, mask=asked, other=float("nan")).to(tl.float32)
    tl.store(lses + r, peak + tl.log(mass))
    tl.store(losses + r, tl.log(mass) + (peak - picked))


@variant(
    operation="cross_entropy",
    parameters={"z_loss": _Z_LOSS, "invalid_target": "nan"},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row, and 1e-4 times its squared log-sum-exp."""
    rows, n = x.shape
    losses, lses = torch.empty(2, rows, dtype=x.dtype, device=x.device)
    if x.numel():
        width = min(1024, triton.next_power_of_2(n))
        _rows[(rows,)](losses, lses, x, target, *x.stride(), target.stride(0), n, width)
    return losses + _Z_LOSS * lses.square()


def demonstrate():
    torch.manual_seed(0)
    x, target = (torch.randn(4, 50) + 300).half(), torch.tensor([0, 3, 49, 5])
    exact = x.double()
    plain = functional.cross_entropy(exact, target, reduction="none")
    return cross_entropy(x, target), plain + _Z_LOSS * torch.logsumexp(exact, -1).square()
