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
from softcheck.judge.device.bins import bin_of_small, count, count_rows, open_table, store_table
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.elements import (
    bound_in_ulps,
    inverse_of_small,
    is_power,
    quick_inverse,
    ratio,
)
from softcheck.judge.device.exp64 import clamped, exp_minus
from softcheck.judge.device.finish import Scan, better, finish, is_nvidia, leave, store_best, store_sums, workspace

MAX_COLUMNS = 16384
"""Widest row whose exponentials fit the registers of one program: 32 float64 per thread of 16 warps."""

WARP_ELEMENTS = 512
"""Elements of a wide row that one warp holds: fewer take fewer registers, but more steps of reduction per element."""
_WARP = 32
_MOST_WARPS = 16
"""Warps of a program: more would not find REGISTERS for each of their threads."""
NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
REGISTERS = 128
THREADS = 512
"""Registers per thread, and threads per multiprocessor that have so many."""
_STAGES = 3
"""Rows that are loaded ahead, and the one in hand."""
_OTHER_SHARED = 16384
"""Bytes of a program's shared memory for anything but rows loaded ahead: the table of counts, and what reductions take."""

LARGEST_ERROR = 2.0**21
"""ULPs from which rows are left: the table of counts ends a little below 2^22. No bound of a scan's models but those that
flush, whose subnormal results may be 2^(p-1) ULPs off, reaches it."""

_MANTISSA = tl.constexpr((1 << 52) - 1)
_UP_EXPONENT = tl.constexpr(64)
_UP = tl.constexpr(2.0**64)
_DOWN = tl.constexpr(2.0**-64)
CLAMP = 0x405E0000
"""The high word of the float64 120: e^-120 is 2^-24 of the least ULP, 2^-149."""
_CLAMP = tl.constexpr(CLAMP)
_CLAMPED = tl.constexpr(120.0)
_LARGEST_ERROR = tl.constexpr(LARGEST_ERROR)
_TABLE = tl.constexpr(bins.TABLE)


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
    table = open_table(NVIDIA)
    slope, exponential = tl.load(constants).to(tl.float32), tl.load(constants + 1).to(tl.float32)
    additions, twice = tl.load(constants + 2).to(tl.float32), tl.load(constants + 3).to(tl.float32)
    most = slope * _CLAMPED + exponential
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
            output = tl.load(outputs)
        else:
            logit = tl.load(logits, mask=inside, other=-float("inf")).to(tl.float32)
            output = tl.load(outputs, mask=inside, other=0.0)
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
        # float32 rounds up what lies just below a power of two. No r lies above the maximum's, so where the maximum's lies
        # there, all that are rounded to the power belong below it.
        largest = inverse * _UP * _UP
        top = largest.to(tl.float32)
        lower = (top.to(tl.int32, bitcast=True) - 1).to(tl.float32, bitcast=True)
        edge = tl.where(is_power(top) & (largest < top.to(tl.float64)), top, -1.0)
        small = exact.to(tl.float32)
        small = tl.where(small == edge[:, None], lower[:, None], small)
        per_ulp = inverse_of_small(small, MIN_EXPONENT, PRECISION)
        difference = tl.fma(output.to(tl.float64), tl.full(output.shape, _UP, tl.float64), -exact).to(tl.float32)
        error = tl.abs(difference) * per_ulp
        # Beyond the clamp nothing is left of r, and so no error of its own; float16's logits give none that would show.
        own_part = tl.minimum(own_error, most) if WIDE_RANGE else own_error
        b = own_part + row_part[:, None]
        bound, rounding = bound_in_ulps(b, small * per_ulp, underflow * per_ulp, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS)
        # Negative outputs are at least one ULP off, and flushed ones half an ULP. Only maxima have no error of their own.
        closer = ((output <= 0) & (error > 0.4999)) | (is_power(small) & (own_error > 0))
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
            costs = rounding / per_ulp
            allowance += tl.sum(costs if EVEN else tl.where(inside, costs, 0.0), axis=1) * _DOWN
        else:
            # Half an ULP is more than 2^-(p+1) r, and the sum of r is 1.
            allowance += 2.0 ** -(PRECISION + 1)
        passed = (largest_share <= 1.0 - margin) & (odd == 0) & (weighted <= 1.0)
        passed = passed & (largest_error < _LARGEST_ERROR)
        passed = passed & (deviation <= allowance * (1.0 - 2.0**-12))
        left = valid & (passed == 0)
        leave(row, left, left_rows, listed)
        passed = passed & valid

        if EVEN:
            count_rows(table, histogram, bin_of_small(error), passed, NVIDIA)
        else:
            count(table, histogram, bin_of_small(error), passed[:, None] & inside, 1, NVIDIA, False)
        passed_rows += passed.to(tl.int64)
        error_sum += tl.where(passed, tl.sum(error, axis=1), 0.0).to(tl.float64)
        best_error, error_row = better(best_error, error_row, largest_error, row, passed)
        best_share, share_row = better(best_share, share_row, largest_share, row, passed)
        best_deviation, deviation_row = better(best_deviation, deviation_row, deviation, row, passed)

    none = tl.zeros([ROWS], tl.int64)
    store_sums(error_sum, passed_rows, none, none, floats, integers)
    store_best(best_error, error_row, 1, floats, integers)
    store_best(best_share, share_row, 2, floats, integers)
    store_best(best_deviation, deviation_row, 3, floats, integers)
    store_table(table, counts + tl.program_id(0) * _TABLE, NVIDIA)


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
        return block, 1, min(_MOST_WARPS, block // warp_elements)
    warps = 4 if block <= NARROW else 1
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
    from 256 on.
    """
    rows, columns = x.shape
    block, tile_rows, warps = tile(columns, warp_elements)
    tiles = triton.cdiv(rows, tile_rows)
    space = workspace(rows, min(tiles, programs or default_programs(x.device, warps, THREADS)), x.device)
    chosen = degree(constants)
    _scan_kernel[(space.programs,)](
        x,
        y,
        space.left,
        space.listed,
        space.floats,
        space.integers,
        space.histogram,
        space.counts,
        constants.tensor(chosen, x.device),
        tiles,
        rows,
        columns,
        *x.stride(),
        *y.stride(),
        tile_rows,
        block,
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
        **registers(REGISTERS),
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
