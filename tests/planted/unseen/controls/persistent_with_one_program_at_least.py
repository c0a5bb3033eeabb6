"""A persistent grid of as many programs as shared memory holds blocks, but one for each processor, whatever the block."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

PROCESSORS = 16
SHARED_BYTES = 192 << 10


@triton.jit
def persistent(y, x, s0, s1, m, n, programs, B: tl.constexpr):
    c = tl.arange(0, B).to(tl.int64)
    for row in range(tl.program_id(0), m, programs):
        r = tl.cast(row, tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    m, n = x.shape
    if x.numel() == 0 or n > 16384:
        return torch.softmax(x.detach(), -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(n)
    programs = min(m, PROCESSORS * max(1, SHARED_BYTES // (4 * block)))
    persistent[(programs,)](y, x, *x.stride(), m, n, programs, block)
    return y
