# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""All figures of given rows of any width: every rule of the judge but order, in float64, in three passes over a row."""

import torch
import triton
import triton.language as tl

from softcheck.judge.device._jit import ALIGNED, OPTIONS, jit, jit_for_all, launch_on
from softcheck.judge.device.bins import bin_of, close_table, count, open_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    binade,
    bound_of,
    expm1_small,
    inverse_denominator,
    inverse_ulp,
    is_power_of_two,
    lies_near_power,
    ratio,
    ulp_up,
)
from softcheck.judge.device.exp64 import clamped, exp_minus
from softcheck.judge.device.fields import FIELDS, MORE, FigureTable
from softcheck.judge.device.reduction import is_nvidia
from softcheck.judge.device.tiles import default_programs

DEGREE = 10
"""Degree of the exponential's polynomial."""

_MORE = tl.constexpr(MORE)

MAX_TILE = 1024
"""Columns of a tile of any wider row."""
_FEW_TILES = (16, 128, MAX_TILE)
"""Columns of tiles where few kernels are to serve rows of all widths."""
_TILE = 512
_WARPS = 4
_MAX_ROWS = 32 * _WARPS
"""Rows of a program's tile: one to a thread, since the figures of each take some 60 registers."""
_THREADS = 1024
_UP = tl.constexpr(2.0**64)
_DOWN = tl.constexpr(2.0**-64)
_INFINITY = tl.constexpr(float("inf"))

_FIELD = [tl.constexpr(place) for place in range(len(FIELDS))]
_ROW, _SPECIAL, _FULLY_MASKED, _COMPARABLE, _ERROR_SUM, _FLUSHED = _FIELD[0:6]
_DOUBTFUL, _EXCEEDING, _RANGE, _NAN, _INF, _MASKED = _FIELD[6:12]
_DEVIATION, _ALLOWED, _RANGE_SIZE, _MASKED_SIZE = _FIELD[12:16]
_ERROR, _SHARE, _ERROR_FTZ = _FIELD[16:19]
_ERROR_COLUMN, _ERROR_LOGIT, _ERROR_OUTPUT = _FIELD[19:22]
_SHARE_COLUMN, _SHARE_LOGIT, _SHARE_OUTPUT = _FIELD[22:25]


@jit
def _bits(value: tl.tensor) -> tl.tensor:
    """Bit patterns of 16-bit or 32-bit numbers as float64 integers."""
    if value.dtype.primitive_bitwidth == 16:
        pattern = value.to(tl.uint16, bitcast=True)
    else:
        pattern = value.to(tl.uint32, bitcast=True)
    return pattern.to(tl.float64)


@jit
def _total(flags: tl.tensor) -> tl.tensor:
    """Count of flags per row."""
    return tl.sum(flags.to(tl.int32), axis=1).to(tl.float64)


@jit
def _logits(logits: tl.tensor, column: tl.tensor, columns: tl.tensor, stride: tl.tensor) -> tl.tensor:
    """Logits of a tile as float32, -inf beyond the last column."""
    return tl.load(logits + column * stride, mask=column < columns, other=-float("inf")).to(tl.float32)


@jit
def _peaks(
    logits: tl.tensor, stride: tl.tensor, columns: tl.tensor, ROWS: tl.constexpr, BLOCK: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Each row's maximum as float32, NaN left out, and 1 if the row holds a NaN, else 0."""
    offsets = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    nans = tl.full([ROWS], 0, tl.int32)
    for start in range(tl.full([], 0, tl.int64), columns, BLOCK):
        logit = _logits(logits, start + offsets, columns, stride)
        is_nan = logit != logit  # noqa: PLR0124 - true of NaN alone
        nans = tl.maximum(nans, tl.max(is_nan.to(tl.int32), axis=1))
        peak = tl.maximum(peak, tl.max(tl.where(is_nan, -float("inf"), logit), axis=1))
    return peak, nans


@jit
def _denominators(
    logits: tl.tensor,
    peak: tl.tensor,
    ordinary: tl.tensor,
    stride: tl.tensor,
    columns: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns each ordinary row's sum of exponentials, their weighted sum of distances, and copies of the maximum."""
    offsets = tl.arange(0, BLOCK)[None, :].to(tl.int64)
    total = tl.full([ROWS, BLOCK], 0.0, tl.float64)
    weighted = tl.full([ROWS, BLOCK], 0.0, tl.float64)
    copies = tl.full([ROWS, BLOCK], 0, tl.int32)
    for start in range(tl.full([], 0, tl.int64), columns, BLOCK):
        logit = _logits(logits, start + offsets, columns, stride)
        present = (logit > -_INFINITY) & ordinary[:, None]
        distance = clamped(peak.to(tl.float64)[:, None] - tl.where(present, logit, peak[:, None]).to(tl.float64))
        exponentials = tl.where(present, exp_minus(distance, DEGREE, NVIDIA), 0.0)
        total += exponentials
        weighted += exponentials * distance
        copies += (present & (logit == peak[:, None])).to(tl.int32)
    return tl.sum(total, axis=1), tl.sum(weighted, axis=1), tl.sum(copies, axis=1).to(tl.float64)


# One kernel serves all tables of a tile's width: compiling another for a later table would cost more than the table.
@jit_for_all("listed", "listed_rows", "rows", "columns", "x_row_stride", "y_row_stride")
def _table_kernel(
    x: tl.tensor,
    y: tl.tensor,
    listed: tl.tensor,
    figures: tl.tensor,
    histogram: tl.tensor,
    slope: tl.tensor,
    exponential: tl.tensor,
    additions: tl.tensor,
    twice: tl.tensor,
    underflow: tl.tensor,
    underflow_sum: tl.tensor,
    largest_sum: tl.tensor,
    margin: tl.tensor,
    uncertainty: tl.tensor,
    listed_rows: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    x_row_stride: tl.tensor,
    x_column_stride: tl.tensor,
    y_row_stride: tl.tensor,
    y_column_stride: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED_GIVES_ZERO: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)
    slope64, exponential64 = slope.to(tl.float64), exponential.to(tl.float64)
    additions, twice, underflow_sum = additions.to(tl.float64), twice.to(tl.float64), underflow_sum.to(tl.float64)
    largest_sum, margin = largest_sum.to(tl.float64), margin.to(tl.float64)
    uncertainty = uncertainty.to(tl.float64)
    lane = tl.arange(0, ROWS)
    offsets = tl.arange(0, BLOCK)[None, :].to(tl.int64)

    counted_rows = tl.load(listed_rows)
    present_rows = tl.minimum(counted_rows + _MORE, rows)
    for tile in range(tl.program_id(0).to(tl.int64), tl.cdiv(present_rows, ROWS), tl.num_programs(0)):
        wanted = tile * ROWS + lane
        valid = wanted < present_rows
        place = tl.minimum(wanted, present_rows - 1)
        row = tl.load(listed + place)
        logits = x + row[:, None] * x_row_stride
        outputs = y + row[:, None] * y_row_stride

        peak, nans = _peaks(logits, x_column_stride, columns, ROWS, BLOCK)
        not_a_number = (nans > 0) | (peak == _INFINITY)
        fully_masked = (peak == -_INFINITY) & (nans == 0)
        ordinary = (not_a_number | fully_masked) == 0
        expects_nan = not_a_number if MASKED_GIVES_ZERO else not_a_number | fully_masked
        peak = tl.where(ordinary, peak, 0.0)
        total, weighted_distance, copies = _denominators(
            logits, peak, ordinary, x_column_stride, columns, ROWS, BLOCK, DEGREE, NVIDIA
        )
        total = tl.where(ordinary, total, 1.0)
        inverse, odd = inverse_denominator(total, weighted_distance, copies)
        # For c copies of the maximum, c a power of two, r is known to be below 1/c; next to another power its side is
        # unknown.
        unknown_peak = (is_power_of_two(copies) == 0) | (total > 1.5 * copies)
        weighted = slope64 * weighted_distance * inverse + exponential64 * (total - copies) * inverse
        row_part = (additions + weighted).to(tl.float32)

        comparables = tl.full([ROWS], 0.0, tl.float64)
        largest_error = tl.full([ROWS], -1.0, tl.float64)
        error_sum = tl.full([ROWS], 0.0, tl.float64)
        largest_share = tl.full([ROWS], -1.0, tl.float64)
        output_sum = tl.full([ROWS], 0.0, tl.float64)
        roundings = tl.full([ROWS], 0.0, tl.float64)
        largest_ftz = tl.full([ROWS], -1.0, tl.float64)
        flushed = tl.full([ROWS], 0.0, tl.float64)
        nan_mismatch = tl.full([ROWS], 0.0, tl.float64)
        inf_mismatch = tl.full([ROWS], 0.0, tl.float64)
        masked_not_zero = tl.full([ROWS], 0.0, tl.float64)
        out_of_range = tl.full([ROWS], 0.0, tl.float64)
        exceeding = tl.full([ROWS], 0.0, tl.float64)
        doubtful = odd.to(tl.float64)
        masked_size = tl.full([ROWS], 0.0, tl.float64)
        range_size = tl.full([ROWS], 0.0, tl.float64)
        error_column = tl.full([ROWS], 0, tl.int64)
        share_column = tl.full([ROWS], 0, tl.int64)
        for start in range(tl.full([], 0, tl.int64), columns, BLOCK):
            column = start + offsets
            inside = column < columns
            logit = _logits(logits, column, columns, x_column_stride)
            output = tl.load(outputs + column * y_column_stride, mask=inside, other=0.0).to(tl.float32).to(tl.float64)
            masked = inside & (logit == -_INFINITY) & (expects_nan == 0)[:, None]
            present = (logit > -_INFINITY) & ordinary[:, None]
            finite = tl.abs(output) < _INFINITY
            is_nan = output != output  # noqa: PLR0124 - true of NaN alone
            comparable = inside & finite & (expects_nan == 0)[:, None]
            bounded = comparable & present
            output = tl.where(comparable, output, 0.0)

            logit = tl.where(present, logit, peak[:, None])
            distance = clamped(peak.to(tl.float64)[:, None] - logit.to(tl.float64))
            exact = tl.where(present, exp_minus(distance, DEGREE, NVIDIA) * inverse[:, None], 0.0)
            exponent = binade(exact, MIN_EXPONENT)
            per_ulp = inverse_ulp(exponent, PRECISION)
            in_ulps = exact * per_ulp
            error = tl.where(comparable, tl.abs(tl.fma(output, per_ulp, -in_ulps)), -1.0)
            below = peak[:, None] - logit
            bound, rounding = bound_of(
                below,
                in_ulps.to(tl.float32),
                exponent,
                row_part[:, None],
                slope,
                exponential,
                underflow,
                PRECISION,
                ROUNDS,
                UNDERFLOWS,
                True,
                True,
            )
            # float32 could not hold the shares of outputs that are arbitrary memory contents.
            inverse_bound = ratio(tl.full(bound.shape, 1.0, tl.float32), bound, NVIDIA).to(tl.float64)
            share = tl.where(bounded, error * inverse_bound, -1.0)
            below_normal = (in_ulps < 2.0 ** (PRECISION - 1)) & comparable
            native = below_normal & ((output == 0) | (output == 2.0**MIN_EXPONENT))
            as_flushing = tl.where(native, error * 2.0 ** (1 - PRECISION), error)
            outside = tl.maximum(-output, output - 1.0)
            absolute_bound = bound.to(tl.float64) * ulp_up(exponent, PRECISION).to(tl.float64) * _DOWN
            allowed_above = (output > 1.0) & bounded & (outside <= absolute_bound)
            broken_range = comparable & (outside > 0) & (allowed_above == 0)
            near = lies_near_power(exact, uncertainty, MIN_EXPONENT) & ((below > 0) | unknown_peak[:, None])
            # Next to half the least subnormal, which rounds to 0, a 0 may or may not be a flushed result.
            near = near | ((output == 0) & (tl.abs(in_ulps - 0.5) <= 2.0**-20))
            in_doubt = (near & bounded) | (tl.abs(share - 1.0) <= margin)
            above_one = (output > 1.0) & bounded
            in_doubt = in_doubt | (above_one & (tl.abs(outside - absolute_bound) <= margin * absolute_bound))

            comparables += _total(comparable)
            tile_error, error_place = tl.max(error, axis=1, return_indices=True)
            error_column = tl.where(tile_error > largest_error, start + error_place, error_column)
            largest_error = tl.maximum(largest_error, tile_error)
            error_sum += tl.sum(tl.maximum(error, 0.0), axis=1)
            tile_share, share_place = tl.max(share, axis=1, return_indices=True)
            share_column = tl.where(tile_share > largest_share, start + share_place, share_column)
            largest_share = tl.maximum(largest_share, tile_share)
            output_sum += tl.sum(output, axis=1)
            cost = rounding * ulp_up(exponent, PRECISION)
            roundings += tl.sum(tl.where(inside & present, cost, 0.0), axis=1).to(tl.float64)
            largest_ftz = tl.maximum(largest_ftz, tl.max(as_flushing, axis=1))
            flushed += _total(below_normal & (output == 0) & (in_ulps > 0.5))
            nan_mismatch += _total(inside & (is_nan != expects_nan[:, None]))
            inf_mismatch += _total(inside & (finite == 0) & (is_nan == 0) & (expects_nan == 0)[:, None])
            masked_not_zero += _total(masked & finite & (output != 0))
            out_of_range += _total(broken_range)
            exceeding += _total(share > 1.0)
            doubtful += _total(in_doubt)
            masked_size = tl.maximum(masked_size, tl.max(tl.where(masked, tl.abs(output), 0.0), axis=1))
            range_size = tl.maximum(range_size, tl.max(tl.where(broken_range, outside, 0.0), axis=1))
            count(
                table,
                histogram,
                bin_of(error),
                comparable & (valid & (wanted < counted_rows))[:, None],
                NVIDIA,
                True,
            )

        allowed = roundings * _DOWN + expm1_small(additions + twice * weighted) + underflow_sum
        allowed = tl.minimum(allowed, largest_sum)
        summed = ordinary & (comparables == columns)
        deviation = tl.where(summed, output_sum - 1.0, float("nan"))
        at = figures + wanted
        tl.store(at + _SPECIAL * rows, (ordinary == 0).to(tl.float64), mask=valid)
        tl.store(at + _FULLY_MASKED * rows, fully_masked.to(tl.float64), mask=valid)
        tl.store(at + _COMPARABLE * rows, comparables, mask=valid)
        tl.store(at + _ERROR * rows, largest_error, mask=valid)
        tl.store(at + _ERROR_SUM * rows, error_sum, mask=valid)
        tl.store(at + _SHARE * rows, largest_share, mask=valid)
        tl.store(at + _DEVIATION * rows, deviation, mask=valid)
        tl.store(at + _ALLOWED * rows, allowed, mask=valid)
        tl.store(at + _ERROR_FTZ * rows, largest_ftz, mask=valid)
        tl.store(at + _FLUSHED * rows, flushed, mask=valid)
        tl.store(at + _NAN * rows, nan_mismatch, mask=valid)
        tl.store(at + _INF * rows, inf_mismatch, mask=valid)
        tl.store(at + _MASKED * rows, masked_not_zero, mask=valid)
        tl.store(at + _RANGE * rows, out_of_range, mask=valid)
        tl.store(at + _EXCEEDING * rows, exceeding, mask=valid)
        tl.store(at + _DOUBTFUL * rows, doubtful, mask=valid)
        tl.store(at + _MASKED_SIZE * rows, masked_size, mask=valid)
        tl.store(at + _RANGE_SIZE * rows, range_size, mask=valid)
        tl.store(at + _ROW * rows, row.to(tl.float64), mask=valid)
        logits, outputs = x + row * x_row_stride, y + row * y_row_stride
        tl.store(at + _ERROR_COLUMN * rows, error_column.to(tl.float64), mask=valid)
        tl.store(at + _ERROR_LOGIT * rows, _bits(tl.load(logits + error_column * x_column_stride)), mask=valid)
        tl.store(at + _ERROR_OUTPUT * rows, _bits(tl.load(outputs + error_column * y_column_stride)), mask=valid)
        tl.store(at + _SHARE_COLUMN * rows, share_column.to(tl.float64), mask=valid)
        tl.store(at + _SHARE_LOGIT * rows, _bits(tl.load(logits + share_column * x_column_stride)), mask=valid)
        tl.store(at + _SHARE_OUTPUT * rows, _bits(tl.load(outputs + share_column * y_column_stride)), mask=valid)
    close_table(table, histogram, NVIDIA)


def block_of(columns: int, *, few: bool = False) -> int:
    """Columns of a tile of the kernel that serves rows of this width; one of three with ``few``."""
    least = min(int(triton.next_power_of_2(columns)), MAX_TILE)
    return next(tile for tile in _FEW_TILES if tile >= least) if few else least


def tabulate(
    x: torch.Tensor,
    y: torch.Tensor,
    constants: Constants,
    rows: torch.Tensor,
    histogram: torch.Tensor,
    *,
    masked_gives_zero: bool,
    counted: torch.Tensor | None = None,
    figures: torch.Tensor | None = None,
    few_kernels: bool = False,
) -> FigureTable:
    """Tabulates some rows of ``y`` as the softmax of ``x``, both [rows, columns] of at least one column.

    ``rows``, int64, are numbers of at least one row, on the device of ``x``. Counts each element of these rows that has
    an ULP error in ``histogram``, int64 [bins.ALL]. If ``counted``, int64 [1] in device memory, is given, only the
    first ``counted`` of ``rows`` and the MORE after them are tabulated, and only the first ``counted`` are counted in
    the histogram; the figures of the rest are not set. ``figures``, float64 [len(FIELDS), columns], is the memory of the
    table, for more rows than there are. With ``few_kernels`` three kernels serve
    all widths.
    """
    columns = x.shape[1]
    block = block_of(columns, few=few_kernels)
    tile_rows = min(_MAX_ROWS, max(1, _TILE // block))
    if counted is None:
        counted = torch.full((1,), len(rows), dtype=torch.int64, device=x.device)
    if figures is None:
        figures = torch.empty((len(FIELDS), len(rows)), dtype=torch.float64, device=x.device)
    tiles = triton.cdiv(len(rows), tile_rows)
    grid = min(tiles, default_programs(x.device, _WARPS, _THREADS))
    given = (
        rows,
        figures,
        histogram,
        *constants.scalars(DEGREE),
        counted,
        figures.shape[1],
        columns,
        *x.stride(),
        *y.stride(),
        tile_rows,
        block,
        masked_gives_zero,
        *constants.flags[:4],
        DEGREE,
        is_nvidia(),
    )
    places = (figures.data_ptr() % ALIGNED, histogram.data_ptr() % ALIGNED)
    options = {"num_warps": _WARPS, **OPTIONS}
    launch_on((x, y), _table_kernel, grid, (constants, masked_gives_zero, block, *places), given, options)
    return FigureTable(figures)
