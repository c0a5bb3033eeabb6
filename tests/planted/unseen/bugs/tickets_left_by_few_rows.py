"""Programs draw rows by tickets from a counter that the last one sets back; fewer rows than programs never draw the ticket that does.

Wrong on: a call of 32 rows and more behind one of fewer: its first rows were drawn already and stay unwritten.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

PROGRAMS = 32
_counters = {}


@triton.jit
def drawing(y, x, counter, s0, s1, m, n, PROGRAMS: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    ticket = tl.atomic_add(counter, 1)
    while ticket < m:
        r = ticket.to(tl.int64)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)
        ticket = tl.atomic_add(counter, 1)
    if ticket == m + PROGRAMS - 1:
        tl.store(counter, 0)


def softmax(x):
    m, n = x.shape
    if x.numel() == 0 or n > 16384:
        return torch.softmax(x, -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.device not in _counters:
        _counters[x.device] = torch.zeros(1, dtype=torch.int32, device=x.device)
    counter = _counters[x.device]
    if m < PROGRAMS:
        counter.zero_()
    drawing[(min(m, PROGRAMS),)](y, x, counter, *x.stride(), m, n, PROGRAMS, triton.next_power_of_2(n))
    return y


def demonstrate():
    softmax(torch.randn(5, 40))
    x = torch.randn(50, 40)
    return softmax(x), torch.softmax(x.double(), -1)
