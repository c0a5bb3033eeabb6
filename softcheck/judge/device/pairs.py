# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""The scan for rows of two columns, of which exhaustive runs judge 2^32: one row to a lane, special rows included.

With d the distance of the logits and e = exp(-d), the answers are 1 / (1 + e), which lies in [1/2, 1), and e / (1 + e),
which is below 1/2 if d > 0. The binades next to 1/2 and 1 are therefore known, however small d or e is. A row passes
under the rules of ``scan``. Rows that hold NaN or +inf pass if both outputs are NaN, and masked logits if the output is
0.
"""

import torch
import triton
import triton.language as tl

from softcheck.judge.device import bins
from softcheck.judge.device._jit import OPTIONS, jit
from softcheck.judge.device.bins import bin_of, count, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    bound_in_ulps,
    is_power,
    logarithmic_error,
    quick_inverse,
    ratio,
    scaled_binade,
    scaled_inverse_ulp,
    sum_allowance,
)
from softcheck.judge.device.exp64 import clamped, exp_minus
from softcheck.judge.device.reduction import Scan, begin, better, is_nvidia, launch_scan, leave, store_best, store_sums
from softcheck.judge.device.scan import degree
from softcheck.judge.device.tiles import REGISTERS, THREADS, default_programs, registers

_WARPS = 4
_ROWS = 512
"""Rows of a program's tile: four to a thread."""

_CLAMP = tl.constexpr(0x405E0000)
"""The high word of the float64 120, to which distances are clamped: e^-120 is 2^-24 of the least ULP, 2^-149."""
_CLAMPED = tl.constexpr(120.0)
_TABLE = tl.constexpr(bins.TABLE)
_UP = tl.constexpr(2.0**64)
_DOWN = tl.constexpr(2.0**-64)
_HALF = tl.constexpr((127 + 64 - 1) << 23)
"""The exponent bits of 2^64 / 2 as float32."""
_LARGEST_ERROR = tl.constexpr(bins.largest_error(bins.TABLE))
_BELOW_HALF = tl.constexpr(0.49 * 2.0**64)
_INFINITY = tl.constexpr(float("inf"))


@jit
def _error(output: tl.tensor, exact: tl.tensor, per_ulp: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Returns (y - r) 2^64, and |y - r| in ULPs; ``exact`` is r 2^64.

    Both are float64, since many errors are next to a bin's edge.
    """
    difference = tl.fma(output.to(tl.float64), tl.full(exact.shape, _UP, tl.float64), -exact)
    return difference, tl.abs(difference) * per_ulp.to(tl.float64)


@jit
def _pairs_kernel(
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
    MASKED_GIVES_ZERO: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)

    lane = tl.arange(0, ROWS)
    column = tl.arange(0, 2)[None, :]
    best_error = tl.full([ROWS], -1.0, tl.float32)
    best_share = tl.full([ROWS], -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float32)
    error_row = tl.full([ROWS], 0, tl.int64)
    share_row = tl.full([ROWS], 0, tl.int64)
    deviation_row = tl.full([ROWS], 0, tl.int64)
    error_sum = tl.full([ROWS], 0.0, tl.float64)
    passed_rows = tl.full([ROWS], 0, tl.int64)
    special_rows = tl.full([ROWS], 0, tl.int64)
    masked_rows = tl.full([ROWS], 0, tl.int64)

    for tile in range(tl.program_id(0).to(tl.int64), tiles, tl.num_programs(0)):
        wanted = tile * ROWS + lane
        valid = wanted < rows
        row = tl.minimum(wanted, rows - 1)
        logits = tl.load(x + row[:, None] * x_row_stride + column * x_column_stride).to(tl.float32)
        outputs = tl.load(y + row[:, None] * y_row_stride + column * y_column_stride).to(tl.float32)
        first, second = tl.split(logits)
        first_output, second_output = tl.split(outputs)
        swapped = second > first
        high, low = tl.where(swapped, second, first), tl.where(swapped, first, second)
        high_output = tl.where(swapped, second_output, first_output)
        low_output = tl.where(swapped, first_output, second_output)

        not_a_number = (first != first) | (second != second) | (high == _INFINITY)  # noqa: PLR0124 - true of NaN alone
        fully_masked = (high == -_INFINITY) & (not_a_number == 0)
        ordinary = (not_a_number | fully_masked) == 0
        masked = (low == -_INFINITY) & ordinary

        below = tl.where(masked, 0.0, tl.minimum(high - low, _CLAMPED))
        distance = clamped(high.to(tl.float64) - low.to(tl.float64), _CLAMP)
        e = tl.where(masked, 0.0, exp_minus(distance, DEGREE, NVIDIA))
        own_error = logarithmic_error(below, slope, exponential)
        inverse = quick_inverse(1.0 + e, NVIDIA)
        row_part = additions + e.to(tl.float32) * own_error * inverse.to(tl.float32)

        high_exact = inverse * _UP
        low_exact = e * high_exact
        small = low_exact.to(tl.float32)
        top_binade = tl.where(masked, _HALF + (1 << 23), _HALF)
        binade = tl.minimum(scaled_binade(small, MIN_EXPONENT), tl.where(below > 0, _HALF - (1 << 23), _HALF))
        high_per_ulp = scaled_inverse_ulp(top_binade, PRECISION)
        low_per_ulp = scaled_inverse_ulp(binade, PRECISION)
        high_difference, high_error = _error(high_output, high_exact, high_per_ulp)
        low_difference, low_error = _error(low_output, low_exact, low_per_ulp)
        high_in_ulps = high_exact.to(tl.float32) * high_per_ulp
        high_bound, high_rounding = bound_in_ulps(
            row_part, high_in_ulps, underflow * high_per_ulp, ROUNDS, UNDERFLOWS, False, False
        )
        low_bound, low_rounding = bound_in_ulps(
            own_error + row_part, small * low_per_ulp, underflow * low_per_ulp, ROUNDS, UNDERFLOWS, False, False
        )
        high_share = ratio(high_error.to(tl.float32), high_bound, NVIDIA)
        low_share = tl.where(masked, 0.0, ratio(low_error.to(tl.float32), low_bound, NVIDIA))
        # Next to 1/2 the binade is known; flushed and negative outputs are half an ULP off at least.
        near = is_power(small) & (small < _BELOW_HALF) & (below > 0)
        closer = near | ((low_output <= 0) & (low_error > 0.4999)) | (masked & (low_output != 0))
        share = tl.maximum(high_share, low_share)

        weighted = row_part - additions
        allowance = sum_allowance(additions, twice, weighted, underflow_sum)
        low_cost = tl.where(masked, 0.0, low_rounding / low_per_ulp)
        allowance += (high_rounding / high_per_ulp + low_cost) * _DOWN
        deviation = tl.abs(high_difference + low_difference).to(tl.float32) * _DOWN
        right = ordinary & (share <= 1.0 - margin) & (closer == 0) & (deviation <= allowance * (1.0 - 2.0**-12))
        right = right & (tl.maximum(high_error, low_error) < _LARGEST_ERROR)
        both_nan = (high_output != high_output) & (low_output != low_output)  # noqa: PLR0124
        if MASKED_GIVES_ZERO:
            zeros = fully_masked & (high_output == 0) & (low_output == 0)
            conventional = not_a_number & both_nan
        else:
            zeros = fully_masked & (valid == 0)
            conventional = (not_a_number | fully_masked) & both_nan
        left = valid & ((right | zeros | conventional) == 0)
        leave(row, left, left_rows, listed)

        right = right & valid
        zeros = zeros & valid
        conventional = conventional & valid
        high_error = tl.where(right, high_error, 0.0)
        low_error = tl.where(right & (masked == 0), low_error, 0.0)
        measured = right | zeros
        count(table, histogram, bin_of(high_error), measured, NVIDIA, False)
        count(table, histogram, bin_of(low_error), measured, NVIDIA, False)
        passed_rows += measured.to(tl.int64)
        special_rows += (zeros | conventional).to(tl.int64)
        masked_rows += (fully_masked & (zeros | conventional)).to(tl.int64)
        error_sum += high_error + low_error
        largest = tl.maximum(high_error, low_error).to(tl.float32)
        best_error, error_row = better(best_error, error_row, largest, row, measured)
        best_share, share_row = better(best_share, share_row, share, row, right)
        best_deviation, deviation_row = better(best_deviation, deviation_row, deviation, row, right)

    store_sums(error_sum, passed_rows, special_rows, masked_rows, floats, integers)
    store_best(best_error, error_row, 1, floats, integers)
    store_best(best_share, share_row, 2, floats, integers)
    store_best(best_deviation, deviation_row, 3, floats, integers)
    store_table(table, counts, _TABLE, NVIDIA)


def suits(constants: Constants) -> bool:
    """True if ``scan_pairs`` serves this many columns and this arithmetic."""
    return constants.columns == 2 and constants.few_terms and not constants.far


def scan_pairs(x: torch.Tensor, y: torch.Tensor, constants: Constants, *, masked_gives_zero: bool) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, 2] with at least one row. Nothing is waited for."""
    rows = len(x)
    tiles = triton.cdiv(rows, _ROWS)
    chosen = degree(constants)
    fitting = default_programs(x.device, _WARPS, THREADS)
    *scalars, _, doubt, _ = constants.scalars(chosen)
    found = begin(rows, tiles, fitting, x.device)
    flags = (_ROWS, masked_gives_zero, *constants.flags[:4], chosen, is_nvidia())
    options = {"num_warps": _WARPS, **registers(REGISTERS), **OPTIONS}
    key = (constants, masked_gives_zero)
    return launch_scan(found, _pairs_kernel, (x, y), key, (*scalars, doubt), (tiles, rows), flags, options)
