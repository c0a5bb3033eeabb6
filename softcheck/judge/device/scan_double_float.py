# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""The first look at every row without float64, for GPUs whose float64 is slow: ``scan``'s rules in sums of two float32.

It passes a row as ``scan`` does, with its own error in the margin. Rows with masked logits pass too, if the outputs
there are 0, since rows that it leaves go to ``table`` and so to float64. Exponentials, r and the outputs carry a factor
2^64. An r of at least the least ULP, 2^-149, is then at least 2^-85, and the products' remainders are exact.
"""

import torch
import triton
import triton.language as tl

from softcheck.judge.device import bins
from softcheck.judge.device._jit import jit
from softcheck.judge.device.bins import bin_of_small, count, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.double_float import (
    CLAMP,
    EXACT,
    UNIT_ROUNDOFF,
    error,
    exp_minus,
    fast_two_sum,
    fused,
    inverse,
    product,
    row_sums,
    two_sum,
)
from softcheck.judge.device.elements import (
    bound_in_ulps,
    is_power,
    logarithmic_error,
    ratio,
    scaled_binade,
    scaled_inverse_ulp,
    sum_allowance,
)
from softcheck.judge.device.reduction import Scan, begin, better, is_nvidia, launch_scan, leave, store_best, store_sums
from softcheck.judge.device.scan import degree
from softcheck.judge.device.tiles import NARROW, REGISTERS, THREADS, default_programs, registers, stages, tile

_WARP_ELEMENTS = 512
_UP = tl.constexpr(2.0**64)
_DOWN = tl.constexpr(2.0**-64)
_CLAMP = tl.constexpr(CLAMP)
_NEAR = tl.constexpr(2.0**-34)
"""Bound on the relative error of a row's sum. If the sum is farther than this from a power of two, its side is
known."""
_LEAST = tl.constexpr(2.0**-60)
_LARGEST_ERROR = tl.constexpr(bins.largest_error(bins.TABLE))
_INFINITY = tl.constexpr(float("inf"))
_TABLE = tl.constexpr(bins.TABLE)


@jit
def _denominator(
    total: tl.tensor, low: tl.tensor, rest: tl.tensor, weighted: tl.tensor, exponential: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns the inverse of the sum in two parts, whose signs tell the maxima's binade, and 1 for rows in doubt."""
    total, low = two_sum(total * _DOWN, low * _DOWN)
    total, low = fast_two_sum(total, low + rest * _DOWN)
    high, high_low = inverse(total, low)
    # True if 1 / total is a power of two, or below it. With c copies of the maximum, c a power of two, and other logits
    # whose exponentials vanish beside them, r of the maxima is below 1 / c, in the next binade.
    close = is_power(total) & (weighted > 0) & (tl.abs(low) <= _NEAR * total)
    high_low = tl.where(close, tl.minimum(high_low, -_LEAST * high), high_low)
    # The other exponentials sum to at least 1 if the copies are not all of the power of two.
    odd = close & (weighted > _UP * 0.5 * exponential)
    return high, high_low, (odd | ((total >= 0.5) == 0)).to(tl.int32)


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
    EVEN: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    EXACT_SUMS: tl.constexpr,
    PRECISE: tl.constexpr,
    STAGES: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)

    lane = tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    inside = column < columns
    best_error = tl.full([ROWS], -1.0, tl.float32)
    best_share = tl.full([ROWS], -1.0, tl.float32)
    best_deviation = tl.full([ROWS], -1.0, tl.float32)
    error_row = tl.full([ROWS], 0, tl.int64)
    share_row = tl.full([ROWS], 0, tl.int64)
    deviation_row = tl.full([ROWS], 0, tl.int64)
    error_sum = tl.full([ROWS], 0.0, tl.float32)
    error_sum_low = tl.full([ROWS], 0.0, tl.float32)
    passed_rows = tl.full([ROWS], 0, tl.int64)

    for tile_number in tl.range(tl.program_id(0).to(tl.int64), tiles, tl.num_programs(0), num_stages=STAGES):
        wanted = tile_number * ROWS + lane
        valid = wanted < rows
        row = tl.minimum(wanted, rows - 1)
        logits = x + row[:, None] * x_row_stride + column * x_column_stride
        outputs = y + row[:, None] * y_row_stride + column * y_column_stride
        if EVEN:
            logit = tl.load(logits).to(tl.float32)
            output = tl.load(outputs).to(tl.float32)
        else:
            # Beyond the last column logits are masked and outputs 0, as masked ones ought to be.
            logit = tl.load(logits, mask=inside, other=-float("inf")).to(tl.float32)
            output = tl.load(outputs, mask=inside, other=0.0).to(tl.float32)
        peak = tl.max(logit, axis=1)

        # A difference that overflows is infinite, and its rest no number; both are replaced. A NaN or +inf in the logits
        # makes a distance NaN, and with it all that the row is compared with.
        masked = logit == -_INFINITY
        distance, distance_low = two_sum(tl.broadcast_to(peak[:, None], logit.shape), -logit)
        far = distance > _CLAMP
        distance = tl.where(far, _CLAMP, distance)
        distance_low = tl.where(far, 0.0, distance_low)
        e, e_low = exp_minus(distance, distance_low, PRECISE)
        e = tl.where(masked, 0.0, e)
        e_low = tl.where(masked, 0.0, e_low)
        below = distance > 0
        own_error = logarithmic_error(distance, slope, exponential)
        total, total_low, rest, weighted = row_sums(e, e_low, e * own_error)
        inverse_high, inverse_low, odd = _denominator(total, total_low, rest, weighted, exponential)
        weighted = weighted * _DOWN * inverse_high
        row_part = additions + weighted

        r, r_low = product(
            e,
            e_low,
            tl.broadcast_to(inverse_high[:, None], e.shape),
            tl.broadcast_to(inverse_low[:, None], e.shape),
        )
        r, r_low = fast_two_sum(r, r_low)
        # Just below a power of two the rounded value is the power, and the rest negative.
        truly = (r.to(tl.int32, bitcast=True) - (r_low < 0).to(tl.int32)).to(tl.float32, bitcast=True)
        per_ulp = scaled_inverse_ulp(scaled_binade(truly, MIN_EXPONENT), PRECISION)
        difference = fused(output, tl.full(output.shape, _UP, tl.float32), -r) - r_low
        error = tl.abs(difference) * per_ulp
        in_ulps = r * per_ulp
        b = own_error + row_part[:, None]
        bound, rounding = bound_in_ulps(b, in_ulps, underflow * per_ulp, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS)
        # Negative outputs are at least one ULP off, and flushed ones half an ULP.
        closer = ((output <= 0) & (error > 0.4999)) | (is_power(r) & below)
        closer = tl.where(masked, output != 0, closer)
        share = tl.where(closer, 4.0, tl.where(masked, 0.0, ratio(error, bound, NVIDIA)))
        largest_error = tl.max(error.to(tl.int32, bitcast=True), axis=1).to(tl.float32, bitcast=True)
        largest_share = tl.max(share.to(tl.int32, bitcast=True), axis=1).to(tl.float32, bitcast=True)
        deviation = tl.abs(tl.sum(difference, axis=1)) * _DOWN
        allowance = sum_allowance(additions, twice, weighted, underflow_sum)
        if EXACT_SUMS:
            allowance += tl.sum(tl.where(masked, 0.0, rounding / per_ulp), axis=1) * _DOWN
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        passed = (largest_share <= 1.0 - margin) & (odd == 0) & (weighted <= 1.0) & (largest_error < _LARGEST_ERROR)
        passed = passed & (deviation <= allowance * (1.0 - 2.0**-12))
        left = valid & (passed == 0)
        leave(row, left, left_rows, listed)
        passed = passed & valid

        # Not a broadcast alone: Triton 3.6's interpreter reads an atomic operation's mask as if it were contiguous.
        counted = passed[:, None] & tl.full([ROWS, BLOCK], 1, tl.int1)
        if not EVEN:
            counted = counted & inside
        count(table, histogram, bin_of_small(error), counted, NVIDIA, False)
        passed_rows += passed.to(tl.int64)
        error_sum, carried = two_sum(error_sum, tl.where(passed, tl.sum(error, axis=1), 0.0))
        error_sum_low += carried
        best_error, error_row = better(best_error, error_row, largest_error, row, passed)
        best_share, share_row = better(best_share, share_row, largest_share, row, passed)
        best_deviation, deviation_row = better(best_deviation, deviation_row, deviation, row, passed)

    none = tl.zeros([ROWS], tl.int64)
    errors = error_sum.to(tl.float64) + error_sum_low.to(tl.float64)
    store_sums(errors, passed_rows, none, none, floats, integers)
    store_best(best_error, error_row, 1, floats, integers)
    store_best(best_share, share_row, 2, floats, integers)
    store_best(best_deviation, deviation_row, 3, floats, integers)
    store_table(table, counts, _TABLE, NVIDIA)


def uncertainty(*, precise: bool) -> float:
    """Largest relative error of the kernel's r, for r of at least the least ULP; docs/bounds.md derives it.

    It adds up the exponential for the element and for the denominator, the denominator's sum, its inverse, and the
    product.
    """
    return 2 * error(precise=precise) + (2 + 7 + 11) * UNIT_ROUNDOFF**2


def is_precise(constants: Constants) -> bool:
    """True if a format needs the longer exponential for a reference within 2^-18 ULP; the shorter one gives 2^-25."""
    return constants.fmt.precision > 11


def margin(constants: Constants) -> float:
    """Returns ``Constants.margin`` with this kernel's own error added."""
    own = uncertainty(precise=is_precise(constants))
    return constants.margin(degree(constants)) + 4 * own * 2.0**constants.fmt.precision


def scan(x: torch.Tensor, y: torch.Tensor, constants: Constants, *, programs: int | None = None) -> Scan:
    """Scans the rows as ``softcheck.judge.device.scan.scan`` does, without float64 operations for elements or rows."""
    rows, columns = x.shape
    block, tile_rows, warps = tile(columns, _WARP_ELEMENTS)
    tiles = triton.cdiv(rows, tile_rows)
    *scalars, _, doubt, _ = constants.scalars(degree(constants), margin(constants))
    found = begin(rows, tiles, programs or default_programs(x.device, warps, THREADS), x.device)
    is_narrow, precise = block <= NARROW, is_precise(constants)
    held = stages(block, constants.fmt.itemsize)
    flags = (tile_rows, block, block == columns, *constants.flags, is_narrow, precise, held, is_nvidia())
    options = {"num_warps": warps, **registers(REGISTERS), **EXACT}
    return launch_scan(
        found, _scan_kernel, (x, y), constants, (*scalars, doubt), (tiles, rows, columns), flags, options
    )
