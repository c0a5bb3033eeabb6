"""The workspace is kept from the first call on; made within ``torch.inference_mode`` it can't be cleared outside of it, and the next call raises.

Wrong on: a warm-up or a validation in inference mode before the first ordinary call. In any other order, and in inference mode, all calls are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("raised", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_kept = {}


@triton.jit
def _statistics(peaks, sums, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(
            peak, tl.max(tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0)
        )
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(
            tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak
        )
    tl.store(peaks + r, peak)
    tl.atomic_add(sums + r, tl.sum(mass, 0))


@triton.jit
def _quotients(y, peaks, sums, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
    tl.store(y + r * n + c, tl.exp(v - tl.load(peaks + r)) / tl.load(sums + r), mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0
        sums = _kept.get((x.device, stream))
        if sums is None or sums.numel() < rows:
            sums = _kept[x.device, stream] = torch.empty(rows, dtype=torch.float32, device=x.device)
        sums[:rows].zero_()
        peaks = torch.empty(rows, dtype=torch.float32, device=x.device)
        width = min(1024, triton.next_power_of_2(n))
        _statistics[(rows,)](peaks, sums, x, *x.stride(), n, width)
        _quotients[(rows, triton.cdiv(n, width))](y, peaks, sums, x, *x.stride(), n, width)
    return y


def demonstrate():
    torch.manual_seed(0)
    _kept.clear()
    x = torch.randn(3, 20)
    with torch.inference_mode():
        softmax(x)
    try:
        given = softmax(x)
    except RuntimeError:
        given = torch.full_like(x, float("nan"))
    _kept.clear()
    return given, torch.softmax(x.double(), -1)
