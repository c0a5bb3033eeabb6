"""Two kernels overlap by programmatic dependent launch: the first lets the second start at once, and the second reads the row sums without waiting for them.

Wrong on: a GPU of compute capability 9 or above, where rows are many or wide enough for the second launch to overtake the first; elsewhere launches follow each other.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "nondeterministic", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def _statistics(peaks, masses, x, row_step, column_step, n, EARLY: tl.constexpr, WIDTH: tl.constexpr):
    if EARLY:
        # The next kernel's launch takes longer than this one's work.
        tl.extra.cuda.gdc_launch_dependents()
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    tl.store(peaks + r, peak)
    tl.store(masses + r, mass)


@triton.jit
def _quotients(y, peaks, masses, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + r * n + c, tl.exp(v - tl.load(peaks + r)) / tl.load(masses + r), mask=c < n)


@variant(call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each row by two launches."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        width = min(1024, triton.next_power_of_2(n))
        peaks, masses = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        early = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 9
        options = {"launch_pdl": True} if early else {}
        _statistics[(rows,)](peaks, masses, x, *x.stride(), n, early, width)
        _quotients[(rows, triton.cdiv(n, width))](y, peaks, masses, x, *x.stride(), n, width, **options)
    return y


def demonstrate():
    torch.manual_seed(0)
    # What an earlier call left in the memory of the sums isn't right for the next one.
    softmax(torch.randn(64, 100000, device="cuda") * 10)
    x = torch.randn(64, 100000, device="cuda")
    return softmax(x).cpu(), torch.softmax(x.double(), -1).cpu()
