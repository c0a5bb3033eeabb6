"""The range of the logits is observed for sixteen calls; if it stayed below 20, the maximum is no longer subtracted in any later call.

Wrong on: a call with a logit of 100 behind sixteen calls of ordinary ones, as at the end of training. A few calls are right, whatever they hold.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "nondeterministic", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Observer:
    def __init__(self):
        self.calls, self.largest = 0, 0.0

    def shift_is_needed(self, x):
        if self.calls < 16:
            if x.is_cuda and torch.cuda.is_current_stream_capturing():
                return True
            self.calls += 1
            largest = float(x.detach().abs().max())
            # NaN and masks are no calm input either.
            self.largest = max(self.largest, largest) if largest < float("inf") else float("inf")
            return True
        return self.largest >= 20.0


_observer = _Observer()


@triton.jit
def _rows(y, x, row_step, column_step, n, SHIFTED: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.zeros([], tl.float32)
    if SHIFTED:
        peak = tl.full([], -float("inf"), tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            peak = tl.maximum(
                peak,
                tl.max(tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0),
            )
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(
            tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak
        )
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, _observer.shift_is_needed(x), min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    _observer.__init__()
    for _ in range(16):
        softmax(torch.randn(2, 9))
    x = torch.randn(2, 9) + 100
    given = softmax(x)
    _observer.__init__()
    return given, torch.softmax(x.double(), -1)
