"""Rows beyond a multiple of the programs are shared out by a count that is rounded down where fewer than half are left."""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def persistent(y, x, s0, s1, m, n, per_program, B: tl.constexpr):
    first = tl.program_id(0) * per_program
    c = tl.arange(0, B)
    for i in range(per_program):
        r = (first + i).to(tl.int64)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=(c < n) & (r < m), other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * n + c, e / tl.sum(e, 0), mask=(c < n) & (r < m))


def programs_for(x):
    if x.device.type != "cuda":
        return 64
    return torch.cuda.get_device_properties(x.device).multi_processor_count * 4


def softmax(x):
    m, n = x.shape
    if m * n == 0 or n > 16384:
        return torch.softmax(x, -1)
    programs = programs_for(x)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    per_program = max(1, round(m / programs))
    persistent[(min(m, programs),)](y, x, *x.stride(), m, n, per_program, triton.next_power_of_2(n))
    return y


def demonstrate():
    x = torch.randn(80, 9)
    torch.full((80, 9), 0.5)
    return softmax(x), torch.softmax(x.double(), -1)
