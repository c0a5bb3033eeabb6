"""Kernels whose traces are known: right ones, and each fault that a trace must lay at its step."""

import torch
import triton
import triton.language as tl


@triton.jit
def one_block(y, x, columns, OTHER: tl.constexpr, SUM: tl.constexpr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    logits = tl.load(x + row + lane, mask=lane < columns, other=OTHER).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    total = tl.sum(exponentials.to(SUM), axis=0).to(tl.float32)
    first = 0 if STEP == 1 else columns - 1
    tl.store(y + row + first + STEP * lane, exponentials / total, mask=lane < columns)


@triton.jit
def online(y, x, columns, RESCALES: tl.constexpr, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    maximum = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        logits = tl.load(x + row + start + lane, mask=start + lane < columns, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        if RESCALES:
            total = total * tl.exp(maximum - larger)
        total += tl.sum(tl.exp(logits - larger), axis=0)
        maximum = larger
    for start in range(0, columns, BLOCK):
        logits = tl.load(x + row + start + lane, mask=start + lane < columns, other=-float("inf")).to(tl.float32)
        tl.store(y + row + start + lane, tl.exp(logits - maximum) / total, mask=start + lane < columns)


@triton.jit
def _combine(m, d, n, e):
    larger = tl.maximum(m, n)
    return larger, d * tl.exp(m - larger) + e * tl.exp(n - larger)


@triton.jit
def pairs(y, x, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    logits = tl.load(x + row + lane, mask=lane < columns, other=-float("inf")).to(tl.float32)
    ones = tl.where(lane < columns, 1.0, 0.0)
    # Finite, since -inf - -inf is NaN.
    maximum, total = tl.reduce((tl.maximum(logits, -1e30), ones), 0, _combine)
    tl.store(y + row + lane, tl.exp(logits - maximum) / total, mask=lane < columns)


@triton.jit
def part(sums, maxima, x, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1)
    lane = at * BLOCK + tl.arange(0, BLOCK)
    logits = tl.load(x + row * columns + lane, mask=lane < columns, other=-float("inf")).to(tl.float32)
    largest = tl.max(logits, axis=0)
    place = row * tl.num_programs(1) + at
    tl.store(maxima + place, largest)
    tl.store(sums + place, tl.sum(tl.exp(logits - largest), axis=0))


@triton.jit
def join(y, sums, maxima, x, columns, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    parts = row * PARTS + tl.arange(0, PARTS)
    largest = tl.load(maxima + parts)
    maximum = tl.max(largest, axis=0)
    total = tl.sum(tl.load(sums + parts) * tl.exp(largest - maximum), axis=0)
    logits = tl.load(x + row * columns + lane, mask=lane < columns, other=-float("inf")).to(tl.float32)
    tl.store(y + row * columns + lane, tl.exp(logits - maximum) / total, mask=lane < columns)


def _one_block(x, other=-float("inf"), total=tl.float32, step=1):
    y = torch.empty_like(x)
    one_block[(x.shape[0],)](y, x, x.shape[1], other, total, step, triton.next_power_of_2(x.shape[1]))
    return y


def right(x):
    return _one_block(x)


def padded_with_zero(x):
    """Wrong: lanes beyond the row are loaded as 0 and enter the maximum and the sum."""
    return _one_block(x, other=0.0)


def summed_in_float16(x):
    """Wrong in float32: the exponentials are added up in float16."""
    return _one_block(x, total=tl.float16)


def _online(x, rescales):
    y = torch.empty_like(x)
    online[(x.shape[0],)](y, x, x.shape[1], rescales, 16)
    return y


def right_online(x):
    return _online(x, rescales=True)


def never_rescaled(x):
    """Wrong: the sum so far is not rescaled where the maximum grows."""
    return _online(x, rescales=False)


def right_pairs(x):
    """Right: maximum and sum in one reduction by a function of its own."""
    y = torch.empty_like(x)
    pairs[(x.shape[0],)](y, x, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def right_in_parts(x):
    """Right: two kernels, the second of which reads the sums and the maxima that the first one stored."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    sums, maxima = (torch.empty(rows, 2, device=x.device) for _ in range(2))
    part[(rows, 2)](sums, maxima, x, columns, block // 2)
    y = torch.empty_like(x)
    join[(rows,)](y, sums, maxima, x, columns, 2, block)
    return y


def stored_reversed(x):
    """Wrong: each probability is stored in the column of another one."""
    return _one_block(x, step=-1)


def of_a_reversed_copy(x):
    """Right, but no kernel reads the input's own columns."""
    return _one_block(x.flip(1).contiguous()).flip(1)


@triton.jit
def where_kept(y, x, mask, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    inside = lane < columns
    hidden = tl.load(mask + row + lane, mask=inside, other=1) != 0
    logits = tl.load(x + row + lane, mask=inside, other=0.0).to(tl.float32)
    logits = tl.where(hidden, -float("inf"), logits)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(y + row + lane, exponentials / tl.sum(exponentials, axis=0), mask=inside)


def masked(x, mask):
    """Right: the mask says which logits are -inf."""
    y = torch.empty_like(x)
    where_kept[(x.shape[0],)](y, x, mask, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def of_a_float_copy(x):
    """Right: the kernel reads a copy of the input in another dtype."""
    return _one_block(x.float()).to(x.dtype)


def without_kernel(x):
    return torch.softmax(x, dim=-1)
