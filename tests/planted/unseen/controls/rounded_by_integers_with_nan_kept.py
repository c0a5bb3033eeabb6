"""Right: bfloat16 results are rounded to nearest even by integers, with NaN told apart first and given the bits 0x7fc0, whatever its own were."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _row(y, x, row_step, column_step, n, AS_BITS: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - peak) / whole
        if AS_BITS:
            bits = p.to(tl.int32, bitcast=True)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            tl.store(y + r * n + c, tl.where(p != p, 0x7FC0, rounded).to(tl.int16), mask=c < n)  # noqa: PLR0124 - NaN
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
