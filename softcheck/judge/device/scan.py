# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""The first look at every row: proves ordinary rows right, and leaves all others to ``table``.

A row passes if it holds no NaN and no infinity in input or output, no negative and no flushed output, every error is surely
within its bound, its sum surely within what is allowed, and no answer lies so close to a power of two that its ULP is in
doubt. Of such rows this kernel keeps the figures; of the others it only says which they are. All its shortcuts err to the
side of leaving a row.
"""

import torch
import triton
import triton.language as tl

from softcheck.judge.device import bins
from softcheck.judge.device._jit import INTERPRETED, OPTIONS, jit
from softcheck.judge.device.bins import bin_of_small, count_rows, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    bound_in_ulps,
    inverse_of_small,
    next_to_power,
    quick_inverse,
    ratio,
    truncated,
)
from softcheck.judge.device.exp64 import clamped, exp_minus
from softcheck.judge.device.finish import Scan, better, finish, is_nvidia, leave, store_best, store_sums, workspace

MAX_COLUMNS = 16384
"""Widest row whose exponentials fit the registers of one program: 32 float64 per thread of 16 warps."""

WARP_ELEMENTS = 1024
"""Elements of a wide row that one warp holds: fewer take fewer registers, but more steps of reduction per element."""
_SHORT = 512
"""Columns below which a program has several rows, if they are few enough."""
_WARP = 32
_MOST_WARPS = 16
"""Warps of a program: more would not find REGISTERS for each of their threads."""
NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
REGISTERS = 128
THREADS = 512
"""Registers per thread, and threads per multiprocessor that have so many."""
_MOST_REGISTERS = 255
_ELEMENTS = 32
"""Elements per thread that need them."""
_STAGES = 3
"""Rows that are loaded ahead, and the one in hand."""
_OTHER_SHARED = 16384
"""Bytes of a program's shared memory for anything but rows loaded ahead: the table of counts, and what reductions take."""

LARGEST_ERROR = 2.0**21
"""ULPs from which rows are left: the table of counts ends a little below 2^22. No bound of a scan's models but those that
flush, whose subnormal results may be 2^(p-1) ULPs off, reaches it."""

CLAMP = 0x405E0000
"""The high word of the float64 120: e^-120 is 2^-24 of the least ULP, 2^-149."""
_MANTISSA = tl.constexpr((1 << 52) - 1)
_CLAMP = tl.constexpr(CLAMP)
_CLAMPED = tl.constexpr(120.0)
_CLAMP_OF_FLOAT16 = tl.constexpr(0x40500000)
"""The high word of the float64 64: e^-64 is 2^-68 of the least ULP, 2^-24."""
_UP_EXPONENT = tl.constexpr(96)
"""Exponentials, r and errors are scaled by 2 to this power, but for float16. So the least r, e^-120 / 2^14 or e^-64 / 2^14, is
far from where float32 underflows, as ``inverse_of_small`` needs it."""
_LARGEST_ERROR = tl.constexpr(LARGEST_ERROR)
_TABLE = tl.constexpr(bins.TABLE)


@jit
def _add_both(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    return a + c, b + d


@jit
def _inverse(
    total: tl.tensor, weighted: tl.tensor, exponential: tl.tensor, UP: tl.constexpr, NVIDIA: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """As ``inverse_denominator``, from the sum of the exponentials' errors, which tells what else is in the row.

    Sum and inverse are scaled by UP and its inverse. Where the total is a power of two and the maximum's copies are not
    all of it, the others' exponentials sum to 1 at least, and so their errors to ``exponential``.
    """
    inverse = quick_inverse(total, NVIDIA)
    power_of_two = (total.to(tl.int64, bitcast=True) & _MANTISSA) == 0
    others = power_of_two & (weighted > 0)
    below = (inverse.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    return tl.where(others, below, inverse), others & (weighted > UP * 0.5 * exponential)


@jit
def _lanes(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """[1, BLOCK] as [BLOCK / (LANES INNER), LANES, INNER], of which each lane holds the whole first and last dimension."""
    return tl.reshape(value, [value.shape[1] // (LANES * INNER), LANES, INNER])


@jit
def _maxima(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """Maxima of [ROWS, BLOCK]: of each row, [ROWS, 1], or where a program has one row, of each lane's columns, [LANES]."""
    if LANES == 1:
        largest = tl.max(value, axis=1)[:, None]
    else:
        largest = tl.max(tl.max(_lanes(value, LANES, INNER), axis=2), axis=0)
    return largest


@jit
def _largest(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """``_maxima`` of float32 values >= 0, of which a NaN counts as the largest."""
    return _maxima(value.to(tl.int32, bitcast=True), LANES, INNER).to(tl.float32, bitcast=True)


@jit
def _sums(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """As ``_maxima``, sums."""
    if LANES == 1:
        total = tl.sum(value, axis=1)[:, None]
    else:
        total = tl.sum(tl.sum(_lanes(value, LANES, INNER), axis=2), axis=0)
    return total


@jit
def _peak(logit: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """Largest of each row, NaN left out: [ROWS], or a scalar where a program has one row."""
    if LANES == 1:
        peak = tl.max(logit, axis=1)
    else:
        # In the order of integers, of which a warp finds the largest in one instruction.
        bits = _maxima(logit, LANES, INNER).to(tl.int32, bitcast=True)
        largest = tl.max(bits ^ ((bits >> 31) & 0x7FFFFFFF), axis=0)
        peak = (largest ^ ((largest >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return peak


@jit
def _totals(a: tl.tensor, b: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Sums of both [ROWS, BLOCK] over each row, [ROWS], or scalars where a program has one row.

    In two steps per lane: a chain of additions over all of its columns would keep it waiting.
    """
    if LANES == 1:
        a_total, b_total = tl.reduce((a, b), 1, _add_both)
    else:
        parts = tl.reduce((_lanes(a, LANES, INNER), _lanes(b, LANES, INNER)), 2, _add_both)
        a_total, b_total = tl.reduce(tl.reduce(parts, 0, _add_both), 0, _add_both)
    return a_total, b_total


@jit
def _beside(value: tl.tensor, ONE: tl.constexpr) -> tl.tensor:
    """A figure of every row beside the row's columns: [ROWS, 1], or the scalar where a program has one row."""
    return value if ONE else value[:, None]


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
    EXACT_SUMS: tl.constexpr,
    DEGREE: tl.constexpr,
    STAGES: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    up_exponent: tl.constexpr = _UP_EXPONENT if WIDE_RANGE else 0
    up: tl.constexpr = 2.0**up_exponent
    down: tl.constexpr = 2.0**-up_exponent
    table = open_table(NVIDIA)
    slope, exponential = tl.load(constants).to(tl.float32), tl.load(constants + 1).to(tl.float32)
    additions, twice = tl.load(constants + 2).to(tl.float32), tl.load(constants + 3).to(tl.float32)
    most = slope * _CLAMPED + exponential
    underflow = (tl.load(constants + 4) * up).to(tl.float32)
    underflow_sum, margin = tl.load(constants + 5).to(tl.float32), tl.load(constants + 7).to(tl.float32)

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

    for tile in tl.range(tl.program_id(0).to(tl.int64), tiles, tl.num_programs(0), num_stages=STAGES):
        wanted = tile if one else tile * ROWS + tl.arange(0, ROWS)
        row = wanted if one else tl.minimum(wanted, rows - 1)
        logits = x + _beside(row, one) * x_row_stride + column.to(tl.int64) * x_column_stride
        outputs = y + _beside(row, one) * y_row_stride + column.to(tl.int64) * y_column_stride
        if EVEN:
            logit = tl.load(logits).to(tl.float32)
        else:
            logit = tl.load(logits, mask=inside, other=-float("inf")).to(tl.float32)
        peak = _peak(logit, LANES, INNER)

        below = _beside(peak, one) - logit
        distance = _beside(peak.to(tl.float64), one) - logit.to(tl.float64)
        exponentials = exp_minus(clamped(distance, _CLAMP if WIDE_RANGE else _CLAMP_OF_FLOAT16), DEGREE, up_exponent)
        if not EVEN:
            # Beyond the last column nothing more is left out: what the clamped exponential adds there vanishes in every sum.
            below = tl.where(inside, below, 0.0)
        rounded = exponentials.to(tl.float32)
        # A NaN or an infinity in the logits makes this sum NaN, and with it all that the row is compared with.
        own_error = slope * below + tl.where(below > 0, exponential, 0.0)
        total, weighted = _totals(exponentials, rounded * own_error, LANES, INNER)
        inverse, odd = _inverse(total, weighted, exponential, up, NVIDIA)
        weighted = weighted * inverse.to(tl.float32)
        row_part = additions + weighted

        # Not earlier, since registers are short.
        output = tl.load(outputs) if EVEN else tl.load(outputs, mask=inside, other=0.0)
        # Of the maxima r is exactly this inverse, and cut off it is in the same binade. Of all others ``small`` is within a
        # relative 2^-22 of r below and 2^-23 above, and so in the same binade unless it is ``next_to_power``.
        inverse = inverse * up
        small = rounded * _beside(truncated(inverse, NVIDIA), one)
        per_ulp = inverse_of_small(small, MIN_EXPONENT, PRECISION, up_exponent)
        scaled = output.to(tl.float32) * up if WIDE_RANGE else output
        difference = tl.fma(exponentials, _beside(-inverse, one), scaled.to(tl.float64)).to(tl.float32)
        error = tl.abs(difference) * per_ulp
        # Beyond the clamp nothing is left of r, and so no error of its own; float16's logits give none that would show.
        own_part = tl.minimum(own_error, most) if WIDE_RANGE else own_error
        b = own_part + _beside(row_part, one)
        bound, rounding = bound_in_ulps(b, small * per_ulp, underflow * per_ulp, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS)
        # Negative outputs are at least one ULP off, and flushed ones half an ULP. Only maxima have no error of their own.
        closer = ((output <= 0) & (error > 0.4999)) | (next_to_power(small) & (own_error > 0))
        share = tl.where(closer, 4.0, ratio(error, bound, NVIDIA))
        largest_error, largest_share = _largest(error, LANES, INNER), _largest(share, LANES, INNER)
        # Any lane's doubt makes the row's sum infinite: one reduction for both.
        sure = (largest_share <= 1.0 - margin) & (largest_error < _LARGEST_ERROR)
        differences = tl.where(sure, _sums(difference, LANES, INNER), float("inf"))
        deviation = tl.abs(tl.sum(differences, axis=0 if one else 1)) * down
        allowance = additions + twice * weighted
        allowance = allowance * (1.0 + 0.5 * allowance) + underflow_sum
        if EXACT_SUMS:
            costs = rounding / per_ulp
            allowance += tl.sum(costs if EVEN else tl.where(inside, costs, 0.0), axis=1) * down
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        passed = (deviation <= allowance * (1.0 - 2.0**-12)) & (odd == 0) & (weighted <= 1.0)
        # By way of integers, since the interpreter broadcasts a comparison of float32 scalars as if it were one.
        passed = tl.where(passed, 1, 0) != 0
        if one:
            if passed == 0:
                leave(row, passed == 0, left_rows, listed)
        else:
            leave(row, (wanted < rows) & (passed == 0), left_rows, listed)
            passed = passed & (wanted < rows)

        counted = _beside(passed, one)
        number = bin_of_small(error)
        count_rows(table, histogram, number if EVEN else tl.where(inside, number, _TABLE), counted, NVIDIA)
        passed_rows += passed.to(tl.int64)
        error_sum += tl.where(counted, _sums(error, LANES, INNER), 0.0).to(tl.float64)
        best_error, error_row = better(best_error, error_row, largest_error, _beside(row, one), counted)
        best_share, share_row = better(best_share, share_row, largest_share, _beside(row, one), counted)
        best_deviation, deviation_row = better(best_deviation, deviation_row, deviation, row, passed)

    none = tl.zeros([ROWS], tl.int64)
    every: tl.constexpr = [ROWS * LANES]
    store_sums(tl.reshape(error_sum, every), passed_rows, none, none, floats, integers)
    store_best(tl.reshape(best_error, every), tl.reshape(error_row, every), 1, floats, integers)
    store_best(tl.reshape(best_share, every), tl.reshape(share_row, every), 2, floats, integers)
    store_best(best_deviation, deviation_row, 3, floats, integers)
    store_table(table, counts + tl.program_id(0) * _TABLE, NVIDIA)


def degree(constants: Constants) -> int:
    """The polynomial that keeps the reference within 2^-26 ULP."""
    return 8 if constants.fmt.precision <= 11 else 10


def tile(columns: int, warp_elements: int = WARP_ELEMENTS) -> tuple[int, int, int]:
    """Columns and rows of a program's tile, and its warps: no row is split between warps that one could hold.

    A warp has ``warp_elements`` of a wide row, 256 of short ones, and at most two rows to a thread, since each row in hand
    takes registers of its own.
    """
    block = int(triton.next_power_of_2(columns))
    if block >= _SHORT:
        return block, 1, max(1, min(_MOST_WARPS, block // warp_elements))
    warps = 4 if block <= NARROW else 1
    per_warp = min(_SHORT // 2, 2 * _WARP * block)
    return block, warps * per_warp // block, warps


def _registers(elements: int, warps: int) -> int:
    """Registers for each thread of a program whose threads hold so many elements: more for many, if a multiprocessor has them."""
    fit = _WARP * warps * _MOST_REGISTERS <= REGISTERS * THREADS
    return _MOST_REGISTERS if elements >= _ELEMENTS and fit else REGISTERS


def lanes(x: torch.Tensor, y: torch.Tensor, block: int, tile_rows: int, warps: int) -> tuple[int, int]:
    """Lanes that share a row, 1 where a program has several rows, and how many neighbouring columns each of them loads.

    Should Triton spread the columns in another way, figures are the same but have to be exchanged between lanes.
    """
    if tile_rows > 1:
        return 1, 1
    threads = _WARP * warps
    aligned = all(t.stride(1) == 1 and t.stride(0) % 16 == 0 and t.data_ptr() % 16 == 0 for t in (x, y))
    return threads, min(16 // x.element_size(), block // threads) if aligned else 1


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
    from 256 on.
    """
    rows, columns = x.shape
    block, tile_rows, warps = tile(columns, warp_elements)
    tiles = triton.cdiv(rows, tile_rows)
    most = _registers(block * tile_rows // (_WARP * warps), warps)
    chosen = degree(constants)
    fitting = programs or default_programs(x.device, warps, REGISTERS * THREADS // most)
    space = workspace(constants.vector(chosen), rows, min(tiles, fitting), x.device)
    _scan_kernel[(space.programs,)](
        x,
        y,
        space.left,
        space.listed,
        space.floats,
        space.integers,
        space.histogram,
        space.counts,
        space.constants,
        tiles,
        rows,
        columns,
        *x.stride(),
        *y.stride(),
        tile_rows,
        block,
        *lanes(x, y, block, tile_rows, warps),
        block == columns,
        constants.fmt.max > 2.0**16,
        constants.fmt.precision,
        constants.fmt.min_exponent,
        constants.model.rounds_result,
        constants.underflows,
        constants.far,
        not constants.few_terms,
        block <= NARROW,
        chosen,
        stages(block, constants.fmt.itemsize),
        is_nvidia(),
        num_warps=warps,
        **registers(most),
        **OPTIONS,
    )
    return finish(space)


def stages(block: int, itemsize: int) -> int:
    """Rows of ``block`` columns, of input and output, that fit a program's shared memory, and the one in hand; at most 3."""
    return 1 + min(_STAGES - 1, max(0, (_shared_bytes() - _OTHER_SHARED) // (2 * block * itemsize)))


def _shared_bytes() -> int:
    """Shared memory that one program may have, in bytes."""
    if INTERPRETED:
        return 1 << 30
    driver = triton.runtime.driver.active
    return int(driver.utils.get_device_properties(driver.get_current_device())["max_shared_mem"])


def default_programs(device: torch.device, warps: int, threads: int) -> int:
    """Programs that fill a device with so many threads per multiprocessor."""
    if device.type != "cuda":
        return 2
    multiprocessors = int(torch.cuda.get_device_properties(device).multi_processor_count)
    return multiprocessors * max(1, threads // (32 * warps))


def registers(most: int) -> dict[str, int]:
    """The option that limits a kernel's registers per thread, where there is one."""
    return {"maxnreg": most} if is_nvidia() else {}
