"""Right: both parts of a smoothed mean, that of the targets and that of all columns, are added up by a kernel and divided by the rows that count."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(picked, smooth, x, target, target_step, row_step, column_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + r * target_step)
    if chosen == ignored:
        tl.store(picked + r, 0.0)
        tl.store(smooth + r, 0.0)
        return
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    below = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
        below += tl.where(c < n, peak - v, 0.0)
    whole = tl.log(tl.sum(mass, 0))
    inside = (chosen >= 0) & (chosen < n)
    of_target = tl.load(x + chosen * column_step, mask=inside, other=float("nan")).to(tl.float32)
    tl.store(picked + r, (peak - of_target) + whole)
    tl.store(smooth + r, tl.sum(below, 0) / n + whole)


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "label_smoothing": 0.1, "reduction": "mean"},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy with a label smoothing of 0.1; targets of -100 are ignored."""
    rows, n = x.shape
    picked, smooth = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    if x.numel():
        width = min(1024, triton.next_power_of_2(n))
        _losses[(rows,)](picked, smooth, x, target, target.stride(0), *x.stride(), n, -100, width)
    return (0.9 * picked.sum() + 0.1 * smooth.sum()) / (target != -100).sum()


def _both(x, target):
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, label_smoothing=0.1)


def ordinary(dtype):
    for ignored in (0, 6, 12):
        target = torch.randint(0, 40, (12,))
        target[:ignored] = -100
        yield str(ignored), _both(torch.randn(12, 40).to(dtype), target)
    yield "transposed", _both(torch.randn(40, 12).to(dtype).mT, torch.randint(0, 40, (24,))[::2])
    x = torch.randn(2, 9).to(dtype)
    x[0, 3] = -float("inf")
    yield "hidden", _both(x, torch.tensor([1, 2]))
    x[1, 4] = float("nan")
    yield "nan", _both(x, torch.tensor([-100, 2]))
    yield "one", _both(torch.randn(1, 1).to(dtype), torch.tensor([0]))
