"""Programs per processor are what shared memory holds of blocks: for a block of half of it and more the quotient leaves nothing.

Wrong on: rows of more than 32768 columns, whose programs loop over no rows.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

PROCESSORS = 16
SHARED_BYTES = 192 << 10


@triton.jit
def persistent(y, x, s0, s1, m, n, steps, programs, B: tl.constexpr):
    c = tl.arange(0, B)
    for step in range(steps):
        r = (tl.program_id(0) + step * programs).to(tl.int64)
        inside = (c < n) & (r < m)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * n + c, e / tl.sum(e, 0), mask=inside)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    block = triton.next_power_of_2(n)
    if block > 1 << 17:
        return torch.softmax(x, -1)
    per_processor = SHARED_BYTES // (4 * block)
    programs = min(m, PROCESSORS * per_processor)
    steps = -(-m // programs) if programs else 0
    persistent[(max(programs, 1),)](y, x, *x.stride(), m, n, steps, programs, block)
    return y


def demonstrate():
    x = torch.randn(2, 60000)
    return softmax(x), torch.softmax(x.double(), -1)
