# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
# mypy: disable-error-code="assignment"
"""The scan for rows of 3 to 16 columns: each lane holds whole rows, so that no figure of a row is exchanged.

A row passes under the rules of ``scan``. Special rows are settled here too, since exhaustive runs hold many of them: rows
with NaN or +inf pass if all outputs are NaN, rows of -inf alone if they follow the convention, and masked logits if the
output is 0.
"""

import torch
import triton
import triton.language as tl

from softcheck.judge.device import bins
from softcheck.judge.device._jit import OPTIONS, jit
from softcheck.judge.device.bins import bin_of, count, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    binade,
    bound_in_ulps,
    inverse_ulp,
    inverse_ulp_down,
    is_power,
    is_power_of_two,
    logarithmic_error,
    quick_inverse,
    ratio,
    sum_allowance,
    ulp_up,
)
from softcheck.judge.device.exp64 import clamped, exp_minus
from softcheck.judge.device.reduction import Scan, begin, better, is_nvidia, launch_scan, leave, store_best, store_sums
from softcheck.judge.device.scan import degree
from softcheck.judge.device.tiles import REGISTERS, THREADS, default_programs, registers

FEWEST_COLUMNS, MOST_COLUMNS = 3, 16
_WARPS = 4
_PER_LANE = 8
"""Elements that a lane holds at least."""
_MANY = 12
"""Columns above which a lane needs more registers, and a multiprocessor has fewer of them."""

_CLAMP = tl.constexpr(0x405E0000)
"""The high word of the float64 120, to which distances are clamped: e^-120 is 2^-24 of the least ULP, 2^-149."""
_CLAMPED = tl.constexpr(120.0)
_SCALE = tl.constexpr(64)
"""Exponentials are multiplied by 2 to this power, so that none underflows in float32."""
_UP, _DOWN = tl.constexpr(2.0**64), tl.constexpr(2.0**-64)
_MANTISSA = tl.constexpr((1 << 52) - 1)
_NEAR = tl.constexpr(1 << 20)
"""Units of a total's last place, 2^-32 of it: more than its relative error, whatever the polynomial."""
_NO_SIGN = tl.constexpr(0x7FFFFFFF)
_INFINITE = tl.constexpr(0x7F800000)
_INFINITY = tl.constexpr(float("inf"))
_LARGEST_ERROR = tl.constexpr(bins.largest_error(bins.TABLE))
_TABLE = tl.constexpr(bins.TABLE)


@jit
def _exponential(
    logit: tl.tensor,
    peak: tl.tensor,
    slope: tl.tensor,
    exponential: tl.tensor,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """2^SCALE e^-d as float64, and A as float32; both are 0 for a masked logit, and A alone for the maximum."""
    masked = logit == -_INFINITY
    below = tl.where(masked, 0.0, tl.minimum(peak - logit, _CLAMPED))
    distance = clamped(peak.to(tl.float64) - logit.to(tl.float64), _CLAMP)
    e = tl.where(masked, 0.0, exp_minus(distance, DEGREE, NVIDIA, _SCALE))
    return e, logarithmic_error(below, slope, exponential)


@jit
def _compared(
    e: tl.tensor,
    own_error: tl.tensor,
    output: tl.tensor,
    inverse: tl.tensor,
    row_part: tl.tensor,
    underflow: tl.tensor,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The error in ULPs as float64 and as float32, its share of the bound, and 2^64 times the cost of rounding.

    The share is 4 where the element needs a closer look.
    """
    masked = e == 0
    exact = e * inverse
    exponent = binade(exact, MIN_EXPONENT)
    per_ulp = inverse_ulp(exponent, PRECISION)
    in_ulps = exact * per_ulp
    small = in_ulps.to(tl.float32)
    error = tl.abs(tl.fma(output.to(tl.float64), per_ulp, -in_ulps))
    rounded_error = error.to(tl.float32)
    tau = underflow * inverse_ulp_down(exponent, PRECISION)
    bound, rounding = bound_in_ulps(own_error + row_part, small, tau, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS)
    # Negative outputs are at least one ULP off, and flushed ones half an ULP. Of the maximum the binade is known.
    closer = ((output <= 0) & (rounded_error > 0.4999)) | (is_power(small) & (own_error > 0))
    closer = tl.where(masked, output != 0, closer)
    share = tl.where(closer, 4.0, tl.where(masked, 0.0, ratio(rounded_error, bound, NVIDIA)))
    return error, rounded_error, share, tl.where(masked, 0.0, rounding * ulp_up(exponent, PRECISION))


@jit
def _short_kernel(
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
    x_row_stride: tl.tensor,
    x_column_stride: tl.tensor,
    y_row_stride: tl.tensor,
    y_column_stride: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MASKED_GIVES_ZERO: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)

    lane = tl.arange(0, ROWS)
    best_error = tl.full([ROWS], -1.0, tl.float32)
    best_share = tl.full([ROWS], -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float32)
    error_tile = tl.full([ROWS], 0, tl.int32)
    share_tile = tl.full([ROWS], 0, tl.int32)
    deviation_tile = tl.full([ROWS], 0, tl.int32)
    error_sum = tl.full([ROWS], 0.0, tl.float64)
    passed_rows = tl.full([ROWS], 0, tl.int32)
    special_rows = tl.full([ROWS], 0, tl.int32)
    masked_rows = tl.full([ROWS], 0, tl.int32)

    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        wanted = tile.to(tl.int64) * ROWS + lane
        valid = wanted < rows
        row = tl.minimum(wanted, rows - 1)
        logits = (tl.load(x + row * x_row_stride).to(tl.float32),)
        outputs = (tl.load(y + row * y_row_stride).to(tl.float32),)
        for column in tl.static_range(1, COLUMNS):
            logits += (tl.load(x + row * x_row_stride + column * x_column_stride).to(tl.float32),)
            outputs += (tl.load(y + row * y_row_stride + column * y_column_stride).to(tl.float32),)

        # A NaN alone differs from itself.
        peak, nans = logits[0], logits[0] != logits[0]
        output_sum = outputs[0].to(tl.float64)
        sizes = outputs[0].to(tl.int32, bitcast=True) & _NO_SIGN
        largest_size, least_size = sizes, sizes
        for column in tl.static_range(1, COLUMNS):
            peak = tl.maximum(peak, logits[column])
            nans = nans | (logits[column] != logits[column])
            output_sum += outputs[column].to(tl.float64)
            sizes = outputs[column].to(tl.int32, bitcast=True) & _NO_SIGN
            largest_size, least_size = tl.maximum(largest_size, sizes), tl.minimum(least_size, sizes)
        not_a_number = nans | (peak == _INFINITY)
        fully_masked = (peak == -_INFINITY) & (nans == 0)
        ordinary = (not_a_number | fully_masked) == 0

        exponentials = ()
        own_errors = ()
        total = tl.full([ROWS], 0.0, tl.float64)
        weights = tl.full([ROWS], 0.0, tl.float32)
        for column in tl.static_range(COLUMNS):
            e, own_error = _exponential(logits[column], peak, slope, exponential, DEGREE, NVIDIA)
            exponentials += (e,)
            own_errors += (own_error,)
            total += e
            weights += e.to(tl.float32) * own_error
        inverse = quick_inverse(total, NVIDIA)
        bits = total.to(tl.int64, bitcast=True)
        # With c copies of the maximum, c a power of two, and others that vanish beside them, r is below 1 / c.
        under = (inverse.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
        inverse = tl.where(is_power_of_two(total) & (weights > 0), under, inverse)
        # Next to a power of two the side is unknown if the other exponentials sum to 1 or so.
        odd = (((bits + _NEAR) & _MANTISSA) <= 2 * _NEAR) & (weights > 0.5 * exponential * _UP)
        weighted = weights * inverse.to(tl.float32)
        row_part = additions + weighted

        errors = ()
        largest_error = tl.full([ROWS], 0.0, tl.float32)
        row_sum = tl.full([ROWS], 0.0, tl.float32)
        largest_share = tl.full([ROWS], 0, tl.int32)
        costs = tl.full([ROWS], 0.0, tl.float32)
        for column in tl.static_range(COLUMNS):
            error, rounded_error, share, cost = _compared(
                exponentials[column],
                own_errors[column],
                outputs[column],
                inverse,
                row_part,
                underflow,
                PRECISION,
                MIN_EXPONENT,
                ROUNDS,
                UNDERFLOWS,
                FAR,
                MORE_TERMS,
                NVIDIA,
            )
            errors += (error,)
            row_sum += rounded_error
            largest_error = tl.maximum(largest_error, rounded_error)
            # As integers, among which a NaN is the largest.
            largest_share = tl.maximum(largest_share, share.to(tl.int32, bitcast=True))
            costs += cost
        share = largest_share.to(tl.float32, bitcast=True)
        deviation = tl.abs(output_sum - 1.0).to(tl.float32)
        allowance = sum_allowance(additions, twice, weighted, underflow_sum) + costs * _DOWN
        right = ordinary & valid & (share <= 1.0 - margin) & (odd == 0) & (largest_error < _LARGEST_ERROR)
        right = right & (deviation <= allowance * (1.0 - 2.0**-12))
        all_nan = least_size > _INFINITE
        if MASKED_GIVES_ZERO:
            zeros = fully_masked & (largest_size == 0) & valid
            conventional = not_a_number & all_nan & valid
        else:
            zeros = fully_masked & (valid == 0)
            conventional = (ordinary == 0) & all_nan & valid
        measured = right | zeros
        leave(row, valid & ((measured | conventional) == 0), left_rows, listed)

        for column in tl.static_range(COLUMNS):
            error = tl.where(right, errors[column], 0.0)
            count(table, histogram, bin_of(error), measured, NVIDIA, False)
        error_sum += tl.where(right, row_sum, 0.0).to(tl.float64)
        passed_rows += measured.to(tl.int32)
        special_rows += (zeros | conventional).to(tl.int32)
        masked_rows += (fully_masked & (zeros | conventional)).to(tl.int32)
        largest_error = tl.where(right, largest_error, 0.0)
        best_error, error_tile = better(best_error, error_tile, largest_error, tile, measured)
        best_share, share_tile = better(best_share, share_tile, share, tile, right)
        best_deviation, deviation_tile = better(best_deviation, deviation_tile, deviation, tile, right)

    passed, special, fully = passed_rows.to(tl.int64), special_rows.to(tl.int64), masked_rows.to(tl.int64)
    store_sums(error_sum, passed, special, fully, floats, integers)
    store_best(best_error, error_tile.to(tl.int64) * ROWS + lane, 1, floats, integers)
    store_best(best_share, share_tile.to(tl.int64) * ROWS + lane, 2, floats, integers)
    store_best(best_deviation, deviation_tile.to(tl.int64) * ROWS + lane, 3, floats, integers)
    store_table(table, counts, _TABLE, NVIDIA)


def suits(constants: Constants) -> bool:
    """True if ``scan_short`` serves this many columns."""
    return FEWEST_COLUMNS <= constants.columns <= MOST_COLUMNS


def scan_short(
    x: torch.Tensor, y: torch.Tensor, constants: Constants, *, masked_gives_zero: bool, programs: int | None = None
) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, 3 to 16] with at least one row. Nothing is waited for.

    ``programs`` is the grid; by default the programs fill the device.
    """
    rows, columns = x.shape
    tile_rows = 32 * _WARPS * max(1, _PER_LANE // int(triton.next_power_of_2(columns)))
    tiles = triton.cdiv(rows, tile_rows)
    chosen = degree(constants)
    most = 168 if columns > _MANY else REGISTERS
    fitting = programs or default_programs(x.device, _WARPS, REGISTERS * THREADS // most)
    *scalars, _, doubt, _ = constants.scalars(chosen)
    found = begin(rows, tiles, fitting, x.device)
    flags = (tile_rows, columns, masked_gives_zero, *constants.flags, chosen, is_nvidia())
    options = {"num_warps": _WARPS, **registers(most), **OPTIONS}
    key = (constants, masked_gives_zero)
    return launch_scan(found, _short_kernel, (x, y), key, (*scalars, doubt), (tiles, rows), flags, options)
