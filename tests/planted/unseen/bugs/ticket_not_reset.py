"""The last of a row's programs merges its parts, told by a counter modulo the part count; after another part count it begins elsewhere."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_tickets = {}


@triton.jit
def parts_kernel(tops, sums, merged, tickets, x, s0, s1, n, parts, PARTS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    c = p * B + tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
    top = tl.max(v, 0)
    tl.store(tops + r * parts + p, top)
    tl.store(sums + r * parts + p, tl.sum(tl.exp(v - tl.where(top == -float("inf"), 0.0, top)), 0))
    tl.debug_barrier()
    ticket = tl.atomic_add(tickets + r, 1)
    if ticket % parts == parts - 1:
        k = tl.arange(0, PARTS)
        t = tl.load(tops + r * parts + k, mask=k < parts, other=-float("inf"), volatile=True)
        s = tl.load(sums + r * parts + k, mask=k < parts, other=0.0, volatile=True)
        best = tl.max(t, 0)
        tl.store(merged + 2 * r, best)
        tl.store(merged + 2 * r + 1, tl.sum(tl.where(s == 0.0, 0.0, s * tl.exp(t - best)), 0))


@triton.jit
def quotients(y, merged, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
    tl.store(y + r * n + c, tl.exp(v - tl.load(merged + 2 * r)) / tl.load(merged + 2 * r + 1), mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if not y.numel():
        return y
    parts = triton.cdiv(n, 1024)
    if m > 65535 or parts > 1024:
        return torch.softmax(x, -1)
    # Every launch adds as many tickets as there are parts, so that the remainder begins at 0 again.
    if x.device not in _tickets:
        _tickets[x.device] = torch.zeros(65535, dtype=torch.int32, device=x.device)
    tops = torch.empty(m, parts, dtype=torch.float32, device=x.device)
    sums, merged = torch.empty_like(tops), torch.empty(m, 2, dtype=torch.float32, device=x.device)
    counters = _tickets[x.device]
    slots = triton.next_power_of_2(parts)
    parts_kernel[(m, parts)](tops, sums, merged, counters, x, *x.stride(), n, parts, slots, 1024)
    quotients[(m, parts)](y, merged, x, *x.stride(), n, 1024)
    return y


def demonstrate():
    softmax(torch.randn(2, 3000))
    x = torch.randn(2, 2000)
    torch.full((2, 2), 5.0)
    return softmax(x), torch.softmax(x.double(), -1)
