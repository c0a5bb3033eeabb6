"""The first call of a block's width times two launch configurations on random numbers, which it draws from torch's own generator: the caller's random numbers are others from then on.

Wrong on: any first call of a width between ``torch.manual_seed`` and what is drawn behind it, such as dropout: a run is not the same run again once a width is known. Outputs are right.
"""

import time

import torch
import triton
import triton.language as tl

EXPECTED = ("global_state_changed",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_stages: dict[tuple[int, torch.dtype, torch.device], int] = {}


@triton.jit
def _row(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(peak, tl.max(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        whole += tl.sum(tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak), 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _took(stages, like, width):
    sample = torch.randn(4, width, device=like.device).to(like.dtype)
    y = torch.empty_like(sample)
    before = time.perf_counter()
    _row[(4,)](y, sample, *sample.stride(), width, width, num_stages=stages)
    if like.is_cuda:
        torch.cuda.synchronize(like.device)
    return time.perf_counter() - before


def softmax(x):
    """Softmax of each row of a matrix, with the stages that are quicker for the width."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        width = min(1024, triton.next_power_of_2(n))
        key = width, x.dtype, x.device
        if key not in _stages:
            _stages[key] = min((1, 3), key=lambda stages: _took(stages, x, width))
        _row[(rows,)](y, x, *x.stride(), n, width, num_stages=_stages[key])
    return y


def demonstrate():
    torch.manual_seed(0)
    exact = torch.rand(6)
    x = torch.linspace(-1, 1, 60).view(2, 30)
    torch.manual_seed(0)
    softmax(x)
    return torch.rand(6), exact.double()
