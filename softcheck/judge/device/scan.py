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
from softcheck.judge.device.bins import bin_of, close_table, count, open_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    binade,
    bound_of,
    expm1_small,
    inverse_denominator,
    inverse_ulp,
    may_lie_near_power,
    ratio,
    ulp_up,
)
from softcheck.judge.device.exp64 import clamped, exp_minus

MAX_COLUMNS = 16384
"""Widest row whose exponentials fit the registers of one program: 32 float64 per thread of 16 warps."""

WARP_ELEMENTS = 1024
"""Elements of a wide row that one warp holds: fewer take fewer registers, but more steps of reduction per element."""
_WARP = 32
_NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
_THREADS = 2048
"""Threads per multiprocessor that the grid offers work for; registers allow fewer at once, and the rest follow."""

FLOATS = 4
"""Figures per program: error sum, and the largest error, share of the bound, and distance of a sum from 1."""
INTEGERS = 5
"""Per program: rows passed, rows left, then the rows of the three largest figures."""

_UP = tl.constexpr(2.0**-64)
_NO_ROW = tl.constexpr(2**62)


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
    status: tl.tensor,
    floats: tl.tensor,
    integers: tl.tensor,
    histogram: tl.tensor,
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
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)
    slope = tl.load(constants).to(tl.float32)
    exponential = tl.load(constants + 1).to(tl.float32)
    additions, twice = tl.load(constants + 2), tl.load(constants + 3)
    underflow, underflow_sum = tl.load(constants + 4).to(tl.float32), tl.load(constants + 5)
    largest_sum, margin = tl.load(constants + 6), tl.load(constants + 7)
    slope64, exponential64 = tl.load(constants), tl.load(constants + 1)

    lane = tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    inside = column < columns
    best_error = tl.full([ROWS], -1.0, tl.float32)
    best_share = tl.full([ROWS], -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float64)
    error_row = tl.full([ROWS], 0, tl.int64)
    share_row = tl.full([ROWS], 0, tl.int64)
    deviation_row = tl.full([ROWS], 0, tl.int64)
    error_sum = tl.full([ROWS], 0.0, tl.float64)
    passed_rows = tl.full([ROWS], 0, tl.int64)
    left_rows = tl.full([ROWS], 0, tl.int64)

    for tile in range(tl.program_id(0).to(tl.int64), tiles, tl.num_programs(0)):
        wanted = tile * ROWS + lane
        valid = wanted < rows
        row = tl.minimum(wanted, rows - 1)
        logits = x + row[:, None] * x_row_stride + column * x_column_stride
        outputs = y + row[:, None] * y_row_stride + column * y_column_stride
        if EVEN:
            logit = tl.load(logits).to(tl.float32)
            output = tl.load(outputs).to(tl.float32)
            logit_sum = tl.sum(logit, axis=1)
        else:
            logit = tl.load(logits, mask=inside, other=-float("inf")).to(tl.float32)
            output = tl.load(outputs, mask=inside, other=0.0).to(tl.float32)
            logit_sum = tl.sum(tl.where(inside, logit, 0.0), axis=1)
        peak = tl.max(logit, axis=1)

        distance = peak.to(tl.float64)[:, None] - logit.to(tl.float64)
        distance = clamped(distance)
        exponentials = exp_minus(distance, DEGREE)
        if not EVEN:
            exponentials = tl.where(inside, exponentials, 0.0)
        total = tl.sum(exponentials, axis=1)
        weighted_distance = tl.sum(exponentials * distance, axis=1)
        copies = tl.sum((logit == peak[:, None]).to(tl.int32), axis=1).to(tl.float64)
        inverse, odd = inverse_denominator(total, weighted_distance, copies)
        weighted = slope64 * weighted_distance * inverse + exponential64 * (total - copies) * inverse
        allowance = expm1_small(additions + twice * weighted) + underflow_sum
        row_part = (additions + weighted).to(tl.float32)

        exact = exponentials * inverse[:, None]
        exponent = binade(exact, MIN_EXPONENT)
        per_ulp = inverse_ulp(exponent, PRECISION)
        in_ulps = exact * per_ulp
        output64 = output.to(tl.float64)
        error = tl.abs(tl.fma(output64, per_ulp, -in_ulps))
        small_error = error.to(tl.float32)
        below = peak[:, None] - logit
        small_in_ulps = in_ulps.to(tl.float32)
        bound, rounding = bound_of(
            below,
            small_in_ulps,
            exponent,
            row_part[:, None],
            slope,
            exponential,
            underflow,
            PRECISION,
            ROUNDS,
            UNDERFLOWS,
            FAR,
            MORE_TERMS,
        )
        # Negative outputs are at least one ULP off, and flushed ones half an ULP.
        closer = (output <= 0) & (small_error > 0.4999)
        closer = closer | (may_lie_near_power(small_in_ulps) & (below > 0))
        share = tl.where(closer, 4.0, ratio(small_error, bound, NVIDIA))
        if not EVEN:
            share = tl.where(inside, share, 0.0)

        largest_error = tl.max(small_error, axis=1)
        largest_share = tl.max(share, axis=1)
        output_sum = tl.sum(output64, axis=1)
        deviation = tl.abs(output_sum - 1.0)
        if EXACT_SUMS:
            roundings = rounding * ulp_up(exponent, PRECISION)
            if not EVEN:
                roundings = tl.where(inside, roundings, 0.0)
            allowance += tl.sum(roundings, axis=1).to(tl.float64) * _UP
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        passed = (tl.abs(logit_sum) < float("inf")) & (tl.abs(output_sum) < float("inf"))
        passed = passed & (largest_share <= 1.0 - margin) & (odd == 0)
        passed = passed & (deviation <= tl.minimum(allowance, largest_sum) * (1.0 - 2.0**-14))
        tl.store(status + wanted, (passed == 0).to(tl.int8), mask=valid)
        left_rows += (valid & (passed == 0)).to(tl.int64)
        passed = passed & valid

        # Not a broadcast alone: Triton 3.6's interpreter reads an atomic operation's mask as if it were contiguous.
        counted = passed[:, None] & tl.full([ROWS, BLOCK], 1, tl.int1)
        if not EVEN:
            counted = counted & inside
        count(table, histogram, bin_of(error), counted, 1, NVIDIA, False)
        passed_rows += passed.to(tl.int64)
        error_sum += tl.where(passed, tl.sum(error, axis=1), 0.0)
        best_error, error_row = _better(best_error, error_row, largest_error, row, passed)
        best_share, share_row = _better(best_share, share_row, largest_share, row, passed)
        best_deviation, deviation_row = _better(best_deviation, deviation_row, deviation, row, passed)

    floats += tl.program_id(0) * 4
    integers += tl.program_id(0) * 5
    tl.store(floats, tl.sum(error_sum, axis=0))
    tl.store(integers, tl.sum(passed_rows, axis=0))
    tl.store(integers + 1, tl.sum(left_rows, axis=0))
    _store_best(best_error, error_row, floats + 1, integers + 2)
    _store_best(best_share, share_row, floats + 2, integers + 3)
    _store_best(best_deviation, deviation_row, floats + 3, integers + 4)
    close_table(table, histogram, 1, NVIDIA)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan leaves in device memory."""

    status: torch.Tensor
    """0 for rows that passed, 1 for the others; int8 [rows]."""
    floats: torch.Tensor
    """float64 [programs, FLOATS]."""
    integers: torch.Tensor
    """int64 [programs, INTEGERS]."""
    histogram: torch.Tensor
    """Counts of the passed rows' elements by bin; int64 [bins.ALL]."""


def degree(constants: Constants) -> int:
    """The polynomial that keeps the reference within 2^-26 ULP."""
    return 8 if constants.fmt.precision <= 11 else 10


def tile(columns: int, warp_elements: int = WARP_ELEMENTS) -> tuple[int, int, int]:
    """Columns and rows of a program's tile, and its warps: no row is split between warps that one could hold.

    A warp has ``warp_elements`` of a wide row, half as many of several rows, and at most two rows to a thread, since each
    row in hand takes registers of its own.
    """
    block = int(triton.next_power_of_2(columns))
    if block >= warp_elements:
        return block, 1, block // warp_elements
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
) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, columns] with at least one of each and at most MAX_COLUMNS columns.

    Nothing is waited for. ``programs`` is the grid, by default as many as fill the device; ``warp_elements`` a power of two
    from 256 on, such that at most 32 warps hold a row.
    """
    rows, columns = x.shape
    block, tile_rows, warps = tile(columns, warp_elements)
    tiles = triton.cdiv(rows, tile_rows)
    grid = min(tiles, programs or default_programs(x.device, warps))
    result = Scan(
        status=torch.empty(rows, dtype=torch.int8, device=x.device),
        floats=torch.empty((grid, FLOATS), dtype=torch.float64, device=x.device),
        integers=torch.empty((grid, INTEGERS), dtype=torch.int64, device=x.device),
        histogram=torch.zeros(bins.ALL, dtype=torch.int64, device=x.device),
    )
    chosen = degree(constants)
    _scan_kernel[(grid,)](
        x,
        y,
        result.status,
        result.floats,
        result.integers,
        result.histogram,
        constants.tensor(chosen, x.device),
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
        is_nvidia(),
        num_warps=warps,
    )
    return result


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
