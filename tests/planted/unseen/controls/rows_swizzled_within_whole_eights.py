"""Right: rows are taken in an order swizzled by an exclusive or within eights, by a grid that is rounded up to whole eights, and a program whose row doesn't exist does nothing."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _swizzled(y, x, row_step, column_step, rows, n, WIDTH: tl.constexpr):
    program = tl.program_id(0)
    r = (program ^ ((program >> 3) & 7)).to(tl.int64)
    if r < rows:
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


def softmax(x):
    """Softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        programs = (rows + 7) // 8 * 8
        _swizzled[(programs,)](y, x, *x.stride(), rows, n, min(1024, triton.next_power_of_2(n)))
    return y
