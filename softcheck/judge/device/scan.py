# ruff: noqa: C901, N803, PLR0912, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""The first look at every row: proves ordinary rows right, and leaves all other rows to ``table``.

A row passes if it holds no NaN and no infinity in input or output, and no negative and no flushed output; if every
error is surely within its bound, and the sum surely within its allowance; and if no answer lies so close to a power of
two that its ULP is in doubt. The kernel keeps the figures of passed rows, and only lists the numbers of other rows. All
its shortcuts err to the side of leaving a row.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from softcheck.judge.device import bins
from softcheck.judge.device._jit import OPTIONS, jit
from softcheck.judge.device.bins import EXCHANGE, count_rows, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import as_float32, leading, quick_inverse, sum_allowance
from softcheck.judge.device.exchange import CLOSER, FIRST, kept
from softcheck.judge.device.exp64 import exp_minus
from softcheck.judge.device.reduction import (
    Scan,
    begin,
    better,
    closely,
    is_nvidia,
    launch_scan,
    leave,
    overlaps,
    store_best,
    store_sums,
)
from softcheck.judge.device.row_figures import beside, finite, largest, maxima, minima, peaks, row_sum, sums, totals
from softcheck.judge.device.shares import LEAST_APART, apart, flushed, measured, own_errors, places, shares
from softcheck.judge.device.tiles import (
    NARROW,
    REGISTERS,
    THREADS,
    WARP,
    WARP_ELEMENTS,
    default_programs,
    registers,
    registers_per_thread,
    sparing,
    spread,
    stages,
    tile,
)

MAX_COLUMNS = 16384
"""Widest row whose exponentials fit the registers of one program: 32 float64 per thread of 16 warps."""

_UP_NARROW, _UP_WIDE = tl.constexpr(128), tl.constexpr(64)
"""UP of softcheck.judge.device.shares."""
_MANTISSA = tl.constexpr((1 << 52) - 1)
_NEAR = tl.constexpr(1 << 20)
"""Units of a total's last place, 2^-32 of it: more than its relative error, whatever the polynomial."""
_FAR_BELOW = tl.constexpr(124.0)
"""Distance below the peak to which lower logits are raised, but not float16's. In float32 the distance is exact within
2, if the peak is below LARGEST_PEAK. e^-122 is 2^-27 of the least ULP, 2^-149: nothing is left of r, nor of an error of
its own."""
_LARGEST_PEAK = tl.constexpr(2.0**25)
_LEAST_OF_FLOAT16 = tl.constexpr(-92)
"""The power of two that stands for float16's smaller exponentials, within a factor of sqrt(2). It is 2^-68 of the least
ULP, 2^-24."""
_SCALE = tl.constexpr(-65)
"""Exponentials are multiplied by 2 to this power. ``leading`` of them is then at most 2^63, and may be multiplied by
A."""
_DOWN = tl.constexpr(2.0**-64)
"""2^-128 itself is no normal float32."""


@jit
def _denominator(
    total: tl.tensor, weights: tl.tensor, unit: tl.tensor, exponential: tl.tensor, NVIDIA: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns the inverse of the exponentials' sum, the mean of A, and True if both are known.

    The inverse is that of ``inverse_denominator``. ``weights`` is the sum of A e^-d, in units of ``unit`` and with the
    factors of the exponentials and of ``leading``. With these factors it is above 0 if there is any other finite logit
    than the maximum.

    The total may be a power of two, or so close to one that its own error hides the side. If the maximum's copies are
    then not all of the total, there are two cases. Either the other exponentials all but vanish beside the copies. Or
    they sum to at least 1, but for the total's error, and so their errors sum to ``exponential``.
    """
    inverse = quick_inverse(total, NVIDIA)
    bits = total.to(tl.int64, bitcast=True)
    others = ((bits & _MANTISSA) == 0) & (weights > 0)
    below = (inverse.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    weighted = weights * (-(2.0**-128) / 2.0**_SCALE) * unit
    odd = (((bits + _NEAR) & _MANTISSA) <= 2 * _NEAR) & (weighted > 0.5 * exponential)
    inverse = tl.where(others, below, inverse)
    weighted = weighted * (inverse.to(tl.float32) * 2.0**_SCALE)
    return inverse, weighted, (odd == 0) & (weighted <= 1.0)


@jit
def _deviation(
    too_much: tl.tensor,
    sure: tl.tensor,
    exchange: tl.tensor,
    LANES: tl.constexpr,
    PLACE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tl.tensor:
    """Distance of a row's sum from 1; infinite if any lane is in doubt, so that one reduction serves both."""
    return tl.abs(row_sum(tl.where(sure, too_much, float("inf")), exchange, LANES, PLACE, NVIDIA))


@jit
def _is_within(deviation: tl.tensor, allowance: tl.tensor) -> tl.tensor:
    """True if the deviation is at most the allowance."""
    # By way of integers, since the interpreter broadcasts a comparison of float32 scalars as if it were one.
    return tl.where(deviation <= allowance, 1, 0) != 0


@jit
def _load(place: tl.tensor, inside: tl.tensor, OTHER: tl.constexpr, EVEN: tl.constexpr) -> tl.tensor:
    """Loads a tile as it is stored, OTHER beyond the last column."""
    return tl.load(place) if EVEN else tl.load(place, mask=inside, other=OTHER)


@jit
def _read(
    x: tl.tensor,
    place: tl.tensor,
    rows: tl.tensor,
    row_stride: tl.tensor,
    offsets: tl.tensor,
    inside: tl.tensor,
    exchange: tl.tensor,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    INNER: tl.constexpr,
    EVEN: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Logits of a tile as stored, -inf beyond the last column, and its rows' peaks.

    Tiles beyond the last row read that row.
    """
    one: tl.constexpr = LANES > 1
    row = tl.minimum(place if one else place * ROWS + tl.arange(0, ROWS), rows - 1)
    logits = x + beside(row, one) * row_stride + offsets
    raw = _load(logits, inside, -float("inf"), EVEN)
    return raw, peaks(as_float32(raw, NVIDIA), exchange, LANES, INNER, NVIDIA)


@jit
def _count(
    table: tl.tensor,
    histogram: tl.tensor,
    error_sum: tl.tensor,
    error: tl.tensor,
    counted: tl.tensor,
    inside: tl.tensor,
    LANES: tl.constexpr,
    INNER: tl.constexpr,
    EVEN: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tl.tensor:
    """Counts the errors of a tile's passed rows, and returns the error sum with them added."""
    count_rows(table, histogram, error, inside, counted, EVEN, NVIDIA)
    return error_sum + tl.where(counted, sums(error, LANES, INNER), 0.0).to(tl.float64)


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
    slope: tl.tensor,
    exponential: tl.tensor,
    additions: tl.tensor,
    twice: tl.tensor,
    underflow: tl.tensor,
    underflow_sum: tl.tensor,
    margin: tl.tensor,
    tiles: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    x_row_stride: tl.tensor,
    x_column_stride: tl.tensor,
    y_row_stride: tl.tensor,
    y_column_stride: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    INNER: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE_RANGE: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    WATCHED: tl.constexpr,
    EXACT_SUMS: tl.constexpr,
    DEGREE: tl.constexpr,
    COUNTS: tl.constexpr,
    LARGEST_ERROR: tl.constexpr,
    STAGES: tl.constexpr,
    NVIDIA: tl.constexpr,
    OVERLAPS: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)
    exchange = table + EXCHANGE
    slope = kept(slope, exchange, 0, NVIDIA)
    exponential = kept(exponential, exchange, 1, NVIDIA)
    additions = kept(additions, exchange, 2, NVIDIA)
    twice = kept(twice, exchange, 3, NVIDIA)
    underflow = kept(underflow, exchange, 4, NVIDIA)
    underflow_sum = kept(underflow_sum, exchange, 5, NVIDIA)
    margin = kept(margin, exchange, 6, NVIDIA)
    # Errors of exponentials are in these units.
    unit = -slope
    up: tl.constexpr = _UP_WIDE if WIDE_RANGE else _UP_NARROW

    one: tl.constexpr = LANES > 1
    column = tl.arange(0, BLOCK)[None, :]
    inside = column < columns
    per_lane: tl.constexpr = [LANES] if one else [ROWS, 1]
    best_error = tl.full(per_lane, -1.0, tl.float32)
    best_share = tl.full(per_lane, -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float32)
    error_row = tl.full(per_lane, 0, tl.int64)
    share_row = tl.full(per_lane, 0, tl.int64)
    deviation_row = tl.full([ROWS], 0, tl.int64)
    error_sum = tl.full(per_lane, 0.0, tl.float64)
    passed_rows = tl.full([ROWS], 0, tl.int64)

    # A turn begins with its row's logits and peak in hand, and finds the next row's while it waits for its own sums.
    first = tl.program_id(0).to(tl.int64)
    offsets = column.to(tl.int64) * x_column_stride
    raw, peak = _read(x, first, rows, x_row_stride, offsets, inside, exchange, ROWS, LANES, INNER, EVEN, NVIDIA)
    # The count of rows left begins at 0 only now.
    if OVERLAPS:
        gdc_wait()
    if not WIDE_RANGE:
        # Errors of the turn before: they are counted beside this turn's exponentials, which keep other units busy.
        uncounted = tl.full([ROWS, BLOCK], 0.0, tl.float32)
        uncounted_rows = 0 if one else tl.full([ROWS, 1], 0, tl.int32)
    for place in tl.range(first, tiles, tl.num_programs(0), num_stages=STAGES):
        if not WIDE_RANGE:
            counted = uncounted_rows != 0
            error_sum = _count(table, histogram, error_sum, uncounted, counted, inside, LANES, INNER, EVEN, NVIDIA)
        wanted = place if one else place * ROWS + tl.arange(0, ROWS)
        row = wanted if one else tl.minimum(wanted, rows - 1)
        outputs = y + beside(row, one) * y_row_stride + column.to(tl.int64) * y_column_stride
        if WIDE_RANGE:
            # Values loaded ahead are waited for here, and not beside the exponentials.
            stored = _load(outputs, inside, 0.0, EVEN)
        logit = as_float32(raw, NVIDIA)
        if not EVEN:
            # Columns beyond the last are not left out further: logits so far from the peak vanish in every sum.
            logit = tl.where(inside, logit, beside(peak - _FAR_BELOW, one))
        if WIDE_RANGE:
            ordinary = finite(logit, LANES, INNER)
            logit = tl.maximum(logit, beside(peak - _FAR_BELOW, one))
            distance = beside(peak.to(tl.float64), one) - logit.to(tl.float64)
            exponentials = exp_minus(distance, DEGREE, NVIDIA, _SCALE)
            below = logit - beside(peak, one)
        else:
            # Scaled so that ``leading`` makes it -d.
            small_peak = peak.to(tl.float64) * _DOWN * _DOWN
            distance = tl.fma(
                logit.to(tl.float64), tl.full(logit.shape, -(2.0**-128), tl.float64), beside(small_peak, one)
            )
            exponentials = exp_minus(distance, DEGREE, NVIDIA, _SCALE, _LEAST_OF_FLOAT16, 128)
            below = leading(distance)
        rounded = leading(exponentials)
        own = own_errors(below, slope, exponential, NVIDIA)
        if not EVEN:
            own = tl.where(inside, own, 0.0)
        # In a narrow range, an infinity or a NaN in the logits makes this sum NaN, and no deviation is within its
        # allowance.
        total, weights, exponential_sums = totals(exponentials, rounded * own, exchange, LANES, INNER, NVIDIA)
        inverse, weighted, known = _denominator(total, weights, unit, exponential, NVIDIA)

        if not WIDE_RANGE:
            stored = _load(outputs, inside, 0.0, EVEN)
        output = as_float32(stored, NVIDIA)
        small, per_ulp, difference, error = measured(
            exponentials, rounded, beside(inverse, one), output, up, PRECISION, MIN_EXPONENT, NVIDIA
        )
        share, rounding = shares(
            difference,
            error,
            small,
            per_ulp,
            own,
            unit,
            beside(additions + weighted, one),
            underflow,
            PRECISION,
            ROUNDS,
            UNDERFLOWS,
            FAR,
            MORE_TERMS,
            NVIDIA,
        )
        largest_error, largest_share = largest(error, LANES, INNER), largest(share, LANES, INNER)
        allowance = sum_allowance(additions, twice, weighted, underflow_sum)
        if EXACT_SUMS:
            costs = rounding / per_ulp
            allowance += tl.sum(costs if EVEN else tl.where(inside, costs, 0.0), axis=1) * _DOWN * 2.0 ** (64 - up)
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        if WIDE_RANGE:
            known = known & (tl.abs(peak) < _LARGEST_PEAK)
        allowance = tl.where(known, allowance * (1.0 - 2.0**-12), -1.0)
        # Larger errors have no place among the counts that are stored.
        within = (largest_share <= 1.0 - margin) & (largest_error < LARGEST_ERROR)
        if WIDE_RANGE:
            within = within & ordinary
        if not WIDE_RANGE and not WATCHED:
            # Nothing in ``measured`` tells outputs below -1 from others.
            within = within & (minima(stored, LANES, INNER) >= 0)
        # The next tile is not read earlier, since registers are short.
        following = place + tl.num_programs(0)
        next_raw, next_peak = _read(
            x, following, rows, x_row_stride, offsets, inside, exchange, ROWS, LANES, INNER, EVEN, NVIDIA
        )
        if not WIDE_RANGE:
            excess = sums(output.to(tl.float64), LANES, INNER) - exponential_sums * beside(inverse, one)
            too_much = excess.to(tl.float32)
        else:
            too_much = sums(difference, LANES, INNER) * 2.0**-up
        if one:
            # Rows with neither an answer next to a power of two nor an output of 0 are certain in both respects.
            sure = within & (minima(places(small), LANES, INNER) >= LEAST_APART)
            if WATCHED:
                bits = output.to(tl.int32, bitcast=True)
                sure = sure & (minima(bits if EVEN else tl.where(inside, bits, 1), LANES, INNER) > 0)
            deviation = _deviation(too_much, sure, exchange, LANES, FIRST, NVIDIA)
        if not one or deviation > allowance:
            sure = within & (minima(apart(small, own), LANES, INNER) >= LEAST_APART)
            if WATCHED:
                sure = sure & (maxima(flushed(error, output), LANES, INNER) <= 0)
            deviation = _deviation(too_much, sure, exchange, LANES, CLOSER, NVIDIA)
            # The row is listed here, since a branch of its own would make every row wait for it.
            leave(row, (_is_within(deviation, allowance) == 0) & (wanted < rows), left_rows, listed)
        passed = _is_within(deviation, allowance) & (wanted < rows)

        counted = beside(passed, one)
        if WIDE_RANGE:
            error_sum = _count(table, histogram, error_sum, error, counted, inside, LANES, INNER, EVEN, NVIDIA)
        else:
            uncounted, uncounted_rows = error, tl.where(counted, 1, 0)
        passed_rows += passed.to(tl.int64)
        best_error, error_row = better(best_error, error_row, largest_error, beside(row, one), counted)
        best_share, share_row = better(best_share, share_row, largest_share, beside(row, one), counted)
        best_deviation, deviation_row = better(best_deviation, deviation_row, deviation, row, passed)
        raw, peak = next_raw, next_peak

    if not WIDE_RANGE:
        counted = uncounted_rows != 0
        error_sum = _count(table, histogram, error_sum, uncounted, counted, inside, LANES, INNER, EVEN, NVIDIA)

    if OVERLAPS:
        gdc_launch_dependents()
    none = tl.zeros([ROWS], tl.int64)
    every: tl.constexpr = [ROWS * LANES]
    store_sums(tl.reshape(error_sum, every), passed_rows, none, none, floats, integers)
    store_best(tl.reshape(best_error, every), tl.reshape(error_row, every), 1, floats, integers)
    store_best(tl.reshape(best_share, every), tl.reshape(share_row, every), 2, floats, integers)
    store_best(best_deviation, deviation_row, 3, floats, integers)
    store_table(table, counts, COUNTS, NVIDIA)


def has_wide_range(constants: Constants) -> bool:
    """True if logits and results have a wider range than float16's.

    float64 holds float16's whole range beside a row's maximum.
    """
    return constants.fmt.max > 2.0**16


def degree(constants: Constants) -> int:
    """Degree of the polynomial that keeps the reference within 2^-22 ULP in float16, and within 2^-26 elsewhere."""
    return 10 if has_wide_range(constants) else 7


def is_watched(constants: Constants) -> bool:
    """True if an output may be flushed or negative and yet within its bound.

    Otherwise ``margin`` leaves every such row. If half an ULP of rounding is most of the bound, a negative output,
    which is an ULP or more off, is beyond it.
    """
    return constants.underflows or constants.far or not constants.few_terms or not constants.model.rounds_result


def margin(constants: Constants) -> float:
    """Returns ``Constants.margin``, with an addition if outputs are not watched.

    The addition leaves each output that may have been flushed to 0. If r is ULP/2 to ULP, an output of 0 is r off, and
    its bound is half an ULP plus b (1/2 + r), so the share is at least 1 / (1 + 2 b). There d is at most -log(ULP / 2),
    since the exponentials' sum is at least 1.
    """
    found = constants.margin(degree(constants))
    if not is_watched(constants):
        found += 2 * constants.growth_up_to(-math.log(constants.fmt.least_subnormal / 2))
    return found


@dataclass(frozen=True, slots=True)
class _ScanSettings:
    """All of a launch that depends on the constants and the device, and not on the matrices."""

    block: int
    tile_rows: int
    warps: int
    most_programs: int
    counts: int
    scalars: tuple[float, ...]
    flags: tuple[Any, ...]
    options: dict[str, Any]


@lru_cache(maxsize=256)
def _settings(constants: Constants, device: torch.device, programs: int | None, warp_elements: int) -> _ScanSettings:
    block, tile_rows, warps = tile(constants.columns, warp_elements)
    most = registers_per_thread(block * tile_rows // (WARP * warps), warps)
    chosen = degree(constants)
    wide = has_wide_range(constants)
    *scalars, _, doubt, _ = constants.scalars(chosen, margin(constants))
    scalars[4] *= 2.0 ** ((_UP_WIDE if wide else _UP_NARROW).value - 64)
    counts = bins.counts_for(constants.largest_bound)
    flags = (
        block == constants.columns,
        wide,
        *constants.flags,
        is_watched(constants),
        block <= NARROW,
        chosen,
        counts,
        bins.largest_error(counts),
        stages(block, constants.fmt.itemsize),
        is_nvidia(),
        overlaps(),
    )
    options = {"num_warps": warps, **closely(), **registers(most), **sparing(), **OPTIONS}
    fitting = programs or default_programs(device, warps, REGISTERS * THREADS // most)
    return _ScanSettings(block, tile_rows, warps, fitting, counts, (*scalars, doubt), flags, options)


def scan(
    x: torch.Tensor,
    y: torch.Tensor,
    constants: Constants,
    *,
    programs: int | None = None,
    warp_elements: int = WARP_ELEMENTS,
) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, columns], at least one of each and at most MAX_COLUMNS columns.

    Nothing is waited for. ``programs`` is the grid; by default the programs fill the device. ``warp_elements`` is a
    power of two, at least 256.
    """
    rows, columns = x.shape
    settings = _settings(constants, x.device, programs, warp_elements)
    tiles = triton.cdiv(rows, settings.tile_rows)
    found = begin(rows, tiles, settings.most_programs, x.device, settings.counts)
    sizes = (tiles, rows, columns)
    spread_over = spread(x, y, settings.block, settings.tile_rows, settings.warps)
    flags = (settings.tile_rows, settings.block, *spread_over, *settings.flags)
    return launch_scan(
        found, _scan_kernel, (x, y), (constants, warp_elements), settings.scalars, sizes, flags, settings.options
    )
