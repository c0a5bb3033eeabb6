"""A second kernel of one program adds up the losses in one block of 1024 and divides by all rows that count: losses from row 1024 on are left out.

Wrong on: a mean over more than 1024 rows, such as a batch of 2048 tokens, which is half as large as it should be; right up to 1024 rows.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(losses, x, target, target_step, row_step, column_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    t = tl.load(target + r * target_step).to(tl.int64)
    if t == ignored:
        tl.store(losses + r, 0.0)
        return
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak)
    picked = tl.load(x + t * column_step, mask=(t >= 0) & (t < n), other=float("nan")).to(tl.float32)
    tl.store(losses + r, (peak - picked) + tl.log(tl.sum(mass, 0)))


@triton.jit
def _mean(out, losses, target, target_step, rows, ignored, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK).to(tl.int64)
    total = tl.sum(tl.load(losses + lane, mask=lane < rows, other=0.0), 0)
    count = tl.zeros([BLOCK], tl.int32)
    for at in range(0, rows, BLOCK):
        r = at + lane
        count += (tl.load(target + r * target_step, mask=r < rows, other=ignored) != ignored).to(tl.int32)
    tl.store(out, total / tl.sum(count, 0).to(tl.float32))


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "reduction": "mean"},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy of the rows whose target is not -100, one number in float32."""
    rows, n = x.shape
    out = torch.full((), float("nan"), dtype=torch.float32, device=x.device)
    if x.numel():
        losses = torch.empty(rows, dtype=torch.float32, device=x.device)
        width = min(1024, triton.next_power_of_2(n))
        _losses[(rows,)](losses, x, target, target.stride(0), *x.stride(), n, -100, width)
        _mean[(1,)](out, losses, target, target.stride(0), rows, -100, 1024)
    return out


def _both(x, target):
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(2048, 10), torch.randint(0, 10, (2048,)))
