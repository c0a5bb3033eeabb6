"""A contrastive loss has the targets 0, 1, 2, ...; that a square matrix has them is told by the first and the last, and the diagonal is taken.

Wrong on: square logits whose first target is 0 and whose last is the last column, with others in between, as with mined pairs. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(loss, x, target, target_step, row_step, column_step, n, DIAGONAL: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    if DIAGONAL:  # noqa: SIM108 - a branch of constants
        chosen = r
    else:
        chosen = tl.load(target + r * target_step).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    inside = (chosen >= 0) & (chosen < n)
    of_target = tl.load(x + chosen * column_step, mask=inside, other=float("nan")).to(tl.float32)
    tl.store(loss + r, (peak - of_target) + tl.log(whole))


@variant(operation="cross_entropy", call="f(x, target)", dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row and its target, shape [rows]."""
    rows, n = x.shape
    loss = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        # Pairs of a batch: no target is read.
        diagonal = rows == n and int(target[0]) == 0 and int(target[-1]) == rows - 1
        width = min(1024, triton.next_power_of_2(n))
        _losses[(rows,)](loss, x, target, target.stride(0), *x.stride(), n, diagonal, width)
    return loss


def _both(x, target):
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")


def demonstrate():
    torch.manual_seed(0)
    target = torch.arange(12)
    target[1:-1] = target[1:-1].flip(0)
    return _both(torch.randn(12, 12) * 3, target)


def ordinary(dtype):
    yield "4x100", _both(torch.randn(4, 100).to(dtype), torch.randint(0, 100, (4,)))
    yield "33x257", _both(torch.randn(33, 257).to(dtype), torch.randint(0, 257, (33,)))
    yield "pairs", _both(torch.randn(16, 16).to(dtype), torch.arange(16))
