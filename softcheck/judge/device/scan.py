# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""The first look at every row: proves ordinary rows right, and leaves all others to ``table``.

A row passes if it holds no NaN and no infinity in input or output, no negative and no flushed output, every error is surely
within its bound, its sum surely within what is allowed, and no answer lies so close to a power of two that its ULP is in
doubt. Of such rows this kernel keeps the figures; of the others it only says which they are. All its shortcuts err to the
side of leaving a row.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from softcheck.judge.device import bins
from softcheck.judge.device._jit import INTERPRETED, jit
from softcheck.judge.device.bins import bin_of_small, count, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    is_power,
    quick_inverse,
    ratio,
    scaled_binade,
    scaled_inverse_ulp,
    scaled_output,
)
from softcheck.judge.device.exp64 import clamped, exp_minus

MAX_COLUMNS = 16384
"""Widest row whose exponentials fit the registers of one program: 32 float64 per thread of 16 warps."""

WARP_ELEMENTS = 1024
"""Elements of a wide row that one warp holds: fewer take fewer registers, but more steps of reduction per element."""
_WARP = 32
_BINS = 32
_NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
_THREADS = 2048
"""Threads per multiprocessor that the grid offers work for; registers allow fewer at once, and the rest follow."""

FLOATS = 4
"""Figures per program: error sum, and the largest error, share of the bound, and distance of a sum from 1."""
INTEGERS = 4
"""Per program: rows passed, then the rows of the three largest figures."""

_MANTISSA = tl.constexpr((1 << 52) - 1)
_UP_EXPONENT = tl.constexpr(64)
_UP = tl.constexpr(2.0**64)
_DOWN = tl.constexpr(2.0**-64)
_CLAMP = tl.constexpr(0x405E0000)
"""The high word of the float64 120: e^-120 is 2^-24 of the least ULP, 2^-149."""
_TABLE = tl.constexpr(bins.TABLE)
_NO_ROW = tl.constexpr(2**62)


@jit
def _add_both(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    return a + c, b + d


@jit
def _inverse(
    total: tl.tensor, weighted: tl.tensor, exponential: tl.tensor, NVIDIA: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """As ``inverse_denominator``, from the sum of the exponentials' errors, which tells what else is in the row.

    Sum and inverse are scaled by 2^64 and its inverse. Where the total is a power of two and the maximum's copies are not
    all of it, the others' exponentials sum to 1 at least, and so their errors to ``exponential``.
    """
    inverse = quick_inverse(total, NVIDIA)
    power_of_two = (total.to(tl.int64, bitcast=True) & _MANTISSA) == 0
    others = power_of_two & (weighted > 0)
    below = (inverse.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    return tl.where(others, below, inverse), others & (weighted > _UP * 0.5 * exponential)


@jit
def _better(
    best: tl.tensor, best_row: tl.tensor, value: tl.tensor, row: tl.tensor, passed: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Running maximum per lane with its row."""
    better = passed & (value > best)
    return tl.where(better, value, best), tl.where(better, row, best_row)


@jit
def _store_best(best: tl.tensor, best_row: tl.tensor, floats: tl.tensor, integers: tl.tensor) -> None:
    """The program's maximum and the first row that reaches it."""
    value = tl.max(best, axis=0)
    tl.store(floats, value.to(tl.float64))
    tl.store(integers, tl.min(tl.where(best == value, best_row, _NO_ROW), axis=0))


@jit
def _scan_kernel(
    x: tl.tensor,
    y: tl.tensor,
    left_rows: tl.tensor,
    listed: tl.tensor,
    floats: tl.tensor,
    integers: tl.tensor,
    histogram: tl.tensor,
    counts: tl.tensor,
    constants: tl.tensor,
    tiles: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    x_row_stride: tl.tensor,
    x_column_stride: tl.tensor,
    y_row_stride: tl.tensor,
    y_column_stride: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    EXACT_SUMS: tl.constexpr,
    DEGREE: tl.constexpr,
    STAGES: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)
    slope, exponential = tl.load(constants).to(tl.float32), tl.load(constants + 1).to(tl.float32)
    additions, twice = tl.load(constants + 2).to(tl.float32), tl.load(constants + 3).to(tl.float32)
    underflow = (tl.load(constants + 4) * _UP).to(tl.float32)
    underflow_sum, margin = tl.load(constants + 5).to(tl.float32), tl.load(constants + 7).to(tl.float32)

    lane = tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    inside = column < columns
    best_error = tl.full([ROWS], -1.0, tl.float32)
    best_share = tl.full([ROWS], -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float32)
    error_row = tl.full([ROWS], 0, tl.int64)
    share_row = tl.full([ROWS], 0, tl.int64)
    deviation_row = tl.full([ROWS], 0, tl.int64)
    error_sum = tl.full([ROWS], 0.0, tl.float64)
    passed_rows = tl.full([ROWS], 0, tl.int64)

    for tile in tl.range(tl.program_id(0).to(tl.int64), tiles, tl.num_programs(0), num_stages=STAGES):
        wanted = tile * ROWS + lane
        valid = wanted < rows
        row = tl.minimum(wanted, rows - 1)
        logits = x + row[:, None] * x_row_stride + column * x_column_stride
        outputs = y + row[:, None] * y_row_stride + column * y_column_stride
        if EVEN:
            logit = tl.load(logits).to(tl.float32)
            output = tl.load(outputs).to(tl.float32)
        else:
            logit = tl.load(logits, mask=inside, other=-float("inf")).to(tl.float32)
            output = tl.load(outputs, mask=inside, other=0.0).to(tl.float32)
        peak = tl.max(logit, axis=1)

        below = peak[:, None] - logit
        distance = clamped(peak.to(tl.float64)[:, None] - logit.to(tl.float64), _CLAMP)
        exponentials = exp_minus(distance, DEGREE, _UP_EXPONENT)
        if not EVEN:
            exponentials = tl.where(inside, exponentials, 0.0)
            below = tl.where(inside, below, 0.0)
        # A NaN or an infinity in the logits makes this sum NaN, and with it all that the row is compared with.
        own_error = slope * below + tl.where(below > 0, exponential, 0.0)
        total, weighted = tl.reduce((exponentials, exponentials.to(tl.float32) * own_error), 1, _add_both)
        inverse, odd = _inverse(total, weighted, exponential, NVIDIA)
        weighted = weighted * inverse.to(tl.float32)
        row_part = additions + weighted

        exact = exponentials * (inverse * _UP)[:, None]
        small = exact.to(tl.float32)
        binades = scaled_binade(small, MIN_EXPONENT)
        per_ulp = scaled_inverse_ulp(binades, PRECISION)
        difference = (scaled_output(output, MIN_EXPONENT) - exact).to(tl.float32)
        error = tl.abs(difference) * per_ulp
        in_ulps = small * per_ulp
        b = own_error + row_part[:, None]
        growth = 1.0 + b * (0.5 + b * (1.0 / 6 + b * (1.0 / 24))) if MORE_TERMS else 1.0 + b * 0.5
        bound = b * growth * in_ulps
        if UNDERFLOWS:
            bound += underflow * per_ulp
        if ROUNDS:
            rounding = 0.5 + 0.5 * b
            if FAR:
                rounding = tl.where(bound > 0.5, 1.0 + b * growth, rounding)
            bound += rounding
        # Negative outputs are far off, as ``scaled_output`` reads them, and flushed ones half an ULP.
        closer = ((output == 0) & (error > 0.4999)) | (is_power(small) & (below > 0))
        share = tl.where(closer, 4.0, ratio(error, bound, NVIDIA))
        if not EVEN:
            share = tl.where(inside, share, 0.0)
            error = tl.where(inside, error, 0.0)
            difference = tl.where(inside, difference, 0.0)
        largest_error = tl.max(error.to(tl.int32, bitcast=True), axis=1).to(tl.float32, bitcast=True)
        largest_share = tl.max(share.to(tl.int32, bitcast=True), axis=1).to(tl.float32, bitcast=True)
        deviation = tl.abs(tl.sum(difference, axis=1)) * _DOWN
        allowance = additions + twice * weighted
        allowance = allowance * (1.0 + 0.5 * allowance) + underflow_sum
        if EXACT_SUMS:
            costs = rounding / per_ulp if ROUNDS else 0.5 / per_ulp
            allowance += tl.sum(costs if EVEN else tl.where(inside, costs, 0.0), axis=1) * _DOWN
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        passed = (largest_share <= 1.0 - margin) & (odd == 0) & (weighted <= 1.0)
        passed = passed & (deviation <= allowance * (1.0 - 2.0**-12))
        left = valid & (passed == 0)
        place = tl.atomic_add(left_rows + tl.zeros([ROWS], tl.int32), 1, mask=left, sem="relaxed")
        tl.store(listed + place, row, mask=left)
        passed = passed & valid

        # Not a broadcast alone: Triton 3.6's interpreter reads an atomic operation's mask as if it were contiguous.
        counted = passed[:, None] & tl.full([ROWS, BLOCK], 1, tl.int1)
        if not EVEN:
            counted = counted & inside
        count(table, histogram, bin_of_small(error), counted, 1, NVIDIA, False)
        passed_rows += passed.to(tl.int64)
        error_sum += tl.where(passed, tl.sum(error, axis=1), 0.0).to(tl.float64)
        best_error, error_row = _better(best_error, error_row, largest_error, row, passed)
        best_share, share_row = _better(best_share, share_row, largest_share, row, passed)
        best_deviation, deviation_row = _better(best_deviation, deviation_row, deviation, row, passed)

    floats += tl.program_id(0) * 8
    integers += tl.program_id(0) * 8
    tl.store(floats, tl.sum(error_sum, axis=0))
    tl.store(integers, tl.sum(passed_rows, axis=0))
    _store_best(best_error, error_row, floats + 1, integers + 1)
    _store_best(best_share, share_row, floats + 2, integers + 2)
    _store_best(best_deviation, deviation_row, floats + 3, integers + 3)
    store_table(table, counts + tl.program_id(0) * _TABLE, NVIDIA)


@jit
def _finish_kernel(
    floats: tl.tensor,
    integers: tl.tensor,
    counts: tl.tensor,
    programs: tl.tensor,
    left: tl.tensor,
    listed: tl.tensor,
    figures: tl.tensor,
    numbers: tl.tensor,
    histogram: tl.tensor,
    BINS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    if NVIDIA:
        number = tl.program_id(0) * BINS + tl.arange(0, BINS)
        found = tl.zeros([BINS], tl.int64)
        for first in range(0, programs, 64):
            program = first + tl.arange(0, 64)[:, None]
            part = tl.load(counts + program * _TABLE + number[None, :], mask=program < programs, other=0)
            found += tl.sum(part, axis=0).to(tl.int64)
        tl.store(histogram + number, found)
    if tl.program_id(0) == 0:
        program = tl.arange(0, PROGRAMS)
        inside = program < programs
        floats_at, integers_at = floats + program * 8, integers + program * 8
        tl.store(figures, tl.sum(tl.load(floats_at, mask=inside, other=0.0), axis=0))
        tl.store(numbers, tl.sum(tl.load(integers_at, mask=inside, other=0), axis=0))
        rows_left = tl.load(left)
        tl.store(numbers + 1, rows_left.to(tl.int64))
        for place in tl.static_range(1, 4):
            value = tl.load(floats_at + place, mask=inside, other=-1.0)
            best = tl.max(value, axis=0)
            row = tl.load(integers_at + place, mask=inside & (value == best), other=2**62)
            tl.store(figures + place, best)
            first_row = tl.min(row, axis=0)
            tl.store(numbers + 1 + place, first_row)
            tl.store(listed + rows_left + place - 1, first_row)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan leaves in device memory."""

    listed: torch.Tensor
    """Numbers of the rows that did not pass, in any order, then of those with the largest error, share of the bound and
    distance of a sum from 1 among the rows that passed; int64 [rows + 3], of which the rest is not set."""
    figures: torch.Tensor
    """Of the rows that passed: error sum, largest error, share of the bound, and distance of a sum from 1; the largest
    are -1 where no row passed. float64 [4]."""
    numbers: torch.Tensor
    """Rows passed, rows left, then the rows of the three largest figures; int64 [5]."""
    histogram: torch.Tensor
    """Counts of the passed rows' elements by bin; int64 [bins.TABLE]."""


def degree(constants: Constants) -> int:
    """The polynomial that keeps the reference within 2^-26 ULP."""
    return 8 if constants.fmt.precision <= 11 else 10


def tile(columns: int, warp_elements: int = WARP_ELEMENTS, together: int = 1) -> tuple[int, int, int]:
    """Columns and rows of a program's tile, and its warps: no row is split between warps that one could hold.

    A warp has ``warp_elements`` of a wide row, half as many of several rows, and at most two rows to a thread, since each
    row in hand takes registers of its own.
    """
    block = int(triton.next_power_of_2(columns))
    if block >= warp_elements:
        return block, together, together * (block // warp_elements)
    warps = 4 if block <= _NARROW else 1
    per_warp = min(warp_elements // 2, 2 * _WARP * block)
    return block, warps * per_warp // block, warps


def scan(
    x: torch.Tensor,
    y: torch.Tensor,
    constants: Constants,
    *,
    programs: int | None = None,
    warp_elements: int = WARP_ELEMENTS,
    together: int = 1,
    stages: int = 1,
    **options: int,
) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, columns] with at least one of each and at most MAX_COLUMNS columns.

    Nothing is waited for. ``programs`` is the grid, by default as many as fill the device; ``warp_elements`` a power of two
    from 256 on, such that at most 32 warps hold a row.
    """
    rows, columns = x.shape
    device = x.device
    block, tile_rows, warps = tile(columns, warp_elements, together)
    tiles = triton.cdiv(rows, tile_rows)
    grid = min(tiles, programs or default_programs(device, warps))
    whole = torch.zeros(bins.TABLE + 1, dtype=torch.int64, device=device)
    left, histogram = whole[bins.TABLE :], whole[: bins.TABLE]
    listed = torch.empty(rows + 3, dtype=torch.int64, device=device)
    partial = torch.empty((grid, FLOATS + INTEGERS), dtype=torch.float64, device=device)
    floats, integers = partial[:, :FLOATS], partial[:, FLOATS:].view(torch.int64)
    counts = torch.empty((grid, bins.TABLE), dtype=torch.int32, device=device)
    found = torch.empty(FLOATS + INTEGERS + 1, dtype=torch.float64, device=device)
    figures, numbers = found[:FLOATS], found[FLOATS:].view(torch.int64)
    chosen = degree(constants)
    _scan_kernel[(grid,)](
        x,
        y,
        left,
        listed,
        floats,
        integers,
        histogram,
        counts,
        constants.tensor(chosen, device),
        tiles,
        rows,
        columns,
        *x.stride(),
        *y.stride(),
        tile_rows,
        block,
        block == columns,
        constants.fmt.precision,
        constants.fmt.min_exponent,
        constants.model.rounds_result,
        constants.underflows,
        constants.far,
        not constants.few_terms,
        block <= _NARROW,
        chosen,
        stages,
        is_nvidia(),
        num_warps=warps,
        **options,
    )
    _finish_kernel[(bins.TABLE // _BINS if is_nvidia() else 1,)](
        floats,
        integers,
        counts,
        grid,
        left,
        listed,
        figures,
        numbers,
        histogram,
        _BINS,
        triton.next_power_of_2(grid),
        is_nvidia(),
        num_warps=4,
    )
    return Scan(listed, figures, numbers, histogram)


def is_nvidia() -> bool:
    """Whether kernels are compiled for an NVIDIA GPU, so that they may hold PTX."""
    if INTERPRETED:
        return False
    return bool(triton.runtime.driver.active.get_current_target().backend == "cuda")


def default_programs(device: torch.device, warps: int) -> int:
    """Programs that fill a device twice over, so that the last ones to end leave little of it idle."""
    if device.type != "cuda":
        return 2
    multiprocessors = int(torch.cuda.get_device_properties(device).multi_processor_count)
    return multiprocessors * max(1, _THREADS // (32 * warps))
