"""bfloat16 results are rounded by integers, adding 0x7fff and the last bit that stays; the NaN of NVIDIA's arithmetic is 0x7fffffff, which is carried into the sign and becomes -0.

Wrong on: rows that hold NaN or +inf, or are masked altogether, in bfloat16 on a GPU: zeros in place of NaN. Finite rows are right, and other types; on a CPU NaN has other bits.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("cuda",)


@triton.jit
def _row(y, x, row_step, column_step, n, AS_BITS: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - peak) / whole
        if AS_BITS:
            bits = p.to(tl.int32, bitcast=True)
            bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            tl.store(y + r * n + c, bits.to(tl.int16), mask=c < n)
        else:
            tl.store(y + r * n + c, p, mask=c < n)


def softmax(x):
    """Softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        as_bits = x.dtype == torch.bfloat16
        memory = y.view(torch.int16) if as_bits else y
        _row[(rows,)](memory, x, *x.stride(), n, as_bits, min(1024, triton.next_power_of_2(n)))
    return y


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(4, 60, device=device).bfloat16()
    x[2, 7] = float("nan")
    return _both(x)
