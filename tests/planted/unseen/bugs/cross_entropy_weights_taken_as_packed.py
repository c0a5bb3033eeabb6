"""Class weights are read one after the other, whatever their stride; logits and targets are read through theirs.

Wrong on: weights that are a column of a table of statistics, ``table[:, 1]``, or one number expanded to all classes; right for a tensor of their own.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "out_of_bounds_read")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(out, x, target, weight, target_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    t = tl.load(target + r * target_step).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(peak, tl.max(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak)
    is_class = (t >= 0) & (t < n)
    picked = tl.load(x + t * column_step, mask=is_class, other=float("nan")).to(tl.float32)
    by = tl.load(weight + t, mask=is_class, other=0.0).to(tl.float32)
    tl.store(out + r, by * ((peak - picked) + tl.log(tl.sum(mass, 0))))


@variant(
    operation="cross_entropy",
    parameters={"weight": 1},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Cross-entropy of each row times the weight of its class, float32 [rows]."""
    rows, n = x.shape
    out = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        steps = (target.stride(0), *x.stride())
        _losses[(rows,)](out, x, target, weight, *steps, n, min(1024, triton.next_power_of_2(n)))
    return out


def _both(x, target, weight):
    exact = torch.nn.functional.cross_entropy(x.double(), target, weight.double(), reduction="none")
    return cross_entropy(x, target, weight), exact


def demonstrate():
    torch.manual_seed(0)
    table = torch.rand(30, 3)
    return _both(torch.randn(8, 30), torch.randint(0, 30, (8,)), table[:, 1])
