"""Right: the first call of a width times two numbers of pipeline stages, which give the same bits, on numbers of a generator of its own; torch's generator stays as it was."""

import threading
import time

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_stages: dict[tuple[int, torch.dtype, torch.device], int] = {}
_lock = threading.Lock()


@triton.jit
def _row(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
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
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _took(stages, like, width):
    own = torch.Generator(device="cpu")
    own.manual_seed(0)
    sample = torch.randn(4, width, generator=own, device="cpu", dtype=torch.float32).to(like.device, like.dtype)
    y = torch.empty_like(sample)
    before = time.perf_counter()
    _row[(4,)](y, sample, *sample.stride(), width, width, num_stages=stages)
    if like.is_cuda:
        torch.cuda.current_stream(like.device).synchronize()
    return time.perf_counter() - before


def softmax(x):
    """Softmax of each row of a matrix, with the stages that are quicker for the width."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        width = min(1024, triton.next_power_of_2(n))
        key = width, x.dtype, x.device
        stages = _stages.get(key)
        if stages is None and x.is_cuda and torch.cuda.is_current_stream_capturing():
            stages = 1
        if stages is None:
            with _lock:
                if key not in _stages:
                    _stages[key] = min((1, 3), key=lambda stages: _took(stages, x, width))
            stages = _stages[key]
        _row[(rows,)](y, x, *x.stride(), n, width, num_stages=stages)
    return y
