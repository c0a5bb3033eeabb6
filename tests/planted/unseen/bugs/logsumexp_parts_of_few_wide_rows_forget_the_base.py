"""Few wide rows are shared by several programs, and the kernel that merges their parts gives natural logarithms whatever base is asked for.

Wrong on: fewer than 16 rows, at least 4096 columns, and a base other than e; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "logsumexp"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _part(tops, totals, x, xs, xc, n, width, TILE: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    x += row * xs
    first = part * width
    last = tl.minimum(first + width, n)
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(first, last, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < last, other=-float("inf")).to(tl.float32)
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    tl.store(tops + row * tl.num_programs(1) + part, rest)
    tl.store(totals + row * tl.num_programs(1) + part, tl.sum(total * tl.exp(top - rest), axis=0))


@triton.jit
def _alone(out, tops, totals, of_base, count, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top = tl.load(tops + row, mask=row < count, other=0.0)
    total = tl.load(totals + row, mask=row < count, other=1.0)
    tl.store(out + row, (top + tl.log(total)) * of_base, mask=row < count)


@triton.jit
def _merged(out, tops, totals, parts, PARTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, PARTS)
    total = tl.load(totals + row * parts + lane, mask=lane < parts, other=0.0)
    top = tl.load(tops + row * parts + lane, mask=lane < parts, other=-float("inf"))
    top = tl.where(total == 0.0, -float("inf"), top)
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    tl.store(out + row, rest + tl.log(tl.sum(total * tl.exp(top - rest), axis=0)))


def logsumexp(x, base=None):
    """Log-sum-exp over the last dimension, of natural exponentials, as a logarithm of ``base`` (e)."""
    n = x.shape[-1]
    if not x.numel():
        return x.new_full(x.shape[:-1], -float("inf"))
    rows = x.reshape(-1, n)
    count = rows.shape[0]
    parts = triton.cdiv(n, TILE) if count < 16 and n >= 4096 else 1
    out = torch.empty(count, dtype=x.dtype, device=x.device)
    tops = torch.empty(count, parts, dtype=torch.float32, device=x.device)
    totals = torch.empty_like(tops)
    _part[(count, parts)](
        tops,
        totals,
        rows,
        *rows.stride(),
        n,
        n if parts == 1 else TILE,
        TILE=min(TILE, triton.next_power_of_2(n)),
    )
    if parts == 1:
        of_base = 1.0 if base is None else 1.0 / math.log(base)
        _alone[(triton.cdiv(count, 128),)](out, tops, totals, of_base, count, BLOCK=128)
    else:
        _merged[(count,)](out, tops, totals, parts, PARTS=triton.next_power_of_2(parts))
    return out.view(x.shape[:-1])


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 5000)
    return logsumexp(x, 2), torch.logsumexp(x.double(), -1) / math.log(2)


def ordinary(dtype):
    for shape in ((4, 100), (3, 5000), (20, 5000), (2, 3, 70), (1, 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (logsumexp(x), torch.logsumexp(x.double(), -1))
        if shape != (3, 5000):
            yield f"base 2, {shape}", (logsumexp(x, 2), torch.logsumexp(x.double(), -1) / math.log(2))
