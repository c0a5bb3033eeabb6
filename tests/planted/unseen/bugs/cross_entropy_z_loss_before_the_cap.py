"""The loss is of soft-capped logits, and the z-loss beside it takes the log-sum-exp of the logits before the cap.

Wrong on: logits as large as the cap of 30 and larger. Where the cap changes nothing, as for randn, all is right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _losses(loss, x, target, target_step, row_step, column_step, n, cap, z, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + r * target_step)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    capped_peak = tl.full([], -float("inf"), tl.float32)
    capped_whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        whole = whole * tl.exp(peak - larger) + tl.sum(tl.exp(v - larger), 0)
        peak = larger
        # tanh(t) = 1 - 2 / (exp(2 t) + 1)
        capped = tl.where(c < n, cap * _tanh(v / cap), -float("inf"))
        larger = tl.maximum(capped_peak, tl.max(capped, 0))
        capped_whole = capped_whole * tl.exp(capped_peak - larger) + tl.sum(tl.exp(capped - larger), 0)
        capped_peak = larger
    inside = (chosen >= 0) & (chosen < n)
    of_target = cap * _tanh(tl.load(x + chosen * column_step, mask=inside, other=float("nan")).to(tl.float32) / cap)
    lse = peak + tl.log(whole)
    tl.store(loss + r, (capped_peak - of_target) + tl.log(capped_whole) + z * lse * lse)


@triton.jit
def _tanh(t):
    size = tl.abs(t)
    e = tl.exp(-2.0 * size)
    square = t * t
    small = t * (1.0 - square * (0.33333333 - square * (0.13333333 - square * (0.05396825 - square * 0.021869488))))
    large = tl.where(t < 0.0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)
    return tl.where(size < 0.15, small, tl.where(t == t, large, t))  # noqa: PLR0124 - false of a NaN


@variant(
    operation="cross_entropy",
    parameters={"softcap": 30, "z_loss": 1e-4},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of 30 tanh(x / 30) in each row, and 1e-4 times the squared log-sum-exp."""
    rows, n = x.shape
    loss = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        width = min(1024, triton.next_power_of_2(n))
        _losses[(rows,)](loss, x, target, target.stride(0), *x.stride(), n, 30.0, 1e-4, width)
    return loss


def _both(x):
    target = torch.randint(0, x.shape[1], (x.shape[0],))
    capped = 30 * torch.tanh(x.double() / 30)
    exact = torch.nn.functional.cross_entropy(capped, target, reduction="none")
    return cross_entropy(x, target), exact + 1e-4 * torch.logsumexp(capped, -1).square()


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(4, 50) * 300)


def ordinary(dtype):
    yield "4x100", _both(torch.randn(4, 100).to(dtype))
    yield "33x257", _both(torch.randn(33, 257).to(dtype))
