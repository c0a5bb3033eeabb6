# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Figures of whole rows, from tiles [ROWS, BLOCK] of several rows, or of one row whose columns are spread over LANES.

If a program has one row, LANES > 1. A figure that every row needs is then a scalar, and other figures stay with the
lane that holds the columns, INNER neighbours of them at a time. If a program has several rows, LANES = 1. Warps pass
each other a row's figures by way of ``exchange``, the address of the shared memory of softcheck.judge.device.exchange.
"""

import triton.language as tl

from softcheck.judge.device._jit import jit
from softcheck.judge.device.exchange import PEAK, of_warps, sums_of_warps
from softcheck.judge.device.tiles import WARP

_WARP = tl.constexpr(WARP)


@jit
def _add_both(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    return a + c, b + d


@jit
def _lanes(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """[1, BLOCK] as [BLOCK / (LANES INNER), LANES, INNER]; each lane holds the whole first and last dimension."""
    return tl.reshape(value, [value.shape[1] // (LANES * INNER), LANES, INNER])


@jit
def maxima(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """Maxima of [ROWS, BLOCK]: of each row, [ROWS, 1], or of each lane's columns, [LANES], if a program has one row."""
    if LANES == 1:
        most = tl.max(value, axis=1)[:, None]
    else:
        neighbours = tl.max(_lanes(value, LANES, INNER), axis=2)
        most = tl.max(neighbours, axis=0)
    return most


@jit
def minima(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """Returns minima, as ``maxima`` returns maxima."""
    if LANES == 1:
        least = tl.min(value, axis=1)[:, None]
    else:
        neighbours = tl.min(_lanes(value, LANES, INNER), axis=2)
        least = tl.min(neighbours, axis=0)
    return least


@jit
def largest(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """``maxima`` of float32 values >= 0, of which a NaN counts as the largest."""
    return maxima(value.to(tl.int32, bitcast=True), LANES, INNER).to(tl.float32, bitcast=True)


@jit
def sums(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """Returns sums, as ``maxima`` returns maxima."""
    if LANES == 1:
        total = tl.sum(value, axis=1)[:, None]
    else:
        total = tl.sum(tl.sum(_lanes(value, LANES, INNER), axis=2), axis=0)
    return total


@jit
def _larger(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def _by_warps(value: tl.tensor, LANES: tl.constexpr) -> tl.tensor:
    """[LANES] as [warps, lanes of a warp]."""
    return tl.reshape(value, [LANES // _WARP, _WARP])


@jit
def row_sum(
    value: tl.tensor, exchange: tl.tensor, LANES: tl.constexpr, PLACE: tl.constexpr, NVIDIA: tl.constexpr
) -> tl.tensor:
    """Sum of float32 [LANES] if a program has one row; of [ROWS, 1] for each row if it has several."""
    if LANES == 1:
        total = tl.sum(value, axis=1)
    elif NVIDIA and LANES > _WARP:
        total = of_warps(tl.sum(_by_warps(value, LANES), axis=1), exchange, "add.f32", LANES // _WARP, PLACE)
    else:
        total = tl.sum(value, axis=0)
    return total


@jit
def peaks(
    logit: tl.tensor, exchange: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr, NVIDIA: tl.constexpr
) -> tl.tensor:
    """Largest float32 of each row: [ROWS], or a scalar if a program has one row.

    In a scalar a NaN counts as the largest if its sign is positive, as NVIDIA's maximum makes it; ``finite`` or the sum
    detects other NaNs.
    """
    if LANES == 1:
        peak = tl.max(logit, axis=1)
    else:
        neighbours = tl.reduce(_lanes(logit, LANES, INNER), 2, _larger)
        most = tl.reduce(neighbours, 0, _larger).to(tl.int32, bitcast=True)
        # As integers in the order of the numbers, of which a warp finds the largest in one instruction.
        most = most ^ ((most >> 31) & 0x7FFFFFFF)
        if NVIDIA and LANES > _WARP:
            most = of_warps(tl.max(_by_warps(most, LANES), axis=1), exchange, "max.s32", LANES // _WARP, PEAK)
        else:
            most = tl.max(most, axis=0)
        peak = (most ^ ((most >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return peak


@jit
def finite(value: tl.tensor, LANES: tl.constexpr, INNER: tl.constexpr) -> tl.tensor:
    """True for float32 values [ROWS, 1] or [LANES] without infinity and NaN.

    If LANES > 1, this takes the fewest operations, and may miss a NaN or infinity that makes the row's peak one.
    """
    # -inf and a NaN of that sign are above all others.
    bits = value.to(tl.uint32, bitcast=True)
    if LANES == 1:
        bits = bits << 1
    return maxima(bits, LANES, INNER) < (0xFF000000 if LANES == 1 else 0xFF800000)


@jit
def totals(
    a: tl.tensor,
    b: tl.tensor,
    exchange: tl.tensor,
    LANES: tl.constexpr,
    INNER: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Sums of both [ROWS, BLOCK] over each row, [ROWS], or scalars if a program has one row.

    The third result is ``sums`` of the first argument. Each lane adds in two steps: a chain of additions over all of
    its columns would keep it waiting.
    """
    if LANES == 1:
        a_total, b_total = tl.reduce((a, b), 1, _add_both)
        a_sums = a_total[:, None]
    else:
        neighbours = tl.reduce((_lanes(a, LANES, INNER), _lanes(b, LANES, INNER)), 2, _add_both)
        a_sums, b_sums = tl.reduce(neighbours, 0, _add_both)
        if NVIDIA and LANES > _WARP:
            a_warps, b_warps = tl.reduce((_by_warps(a_sums, LANES), _by_warps(b_sums, LANES)), 1, _add_both)
            a_total, b_total = sums_of_warps(a_warps, b_warps, exchange, LANES // _WARP)
        else:
            a_total, b_total = tl.reduce((a_sums, b_sums), 0, _add_both)
    return a_total, b_total, a_sums


@jit
def beside(value: tl.tensor, ONE: tl.constexpr) -> tl.tensor:
    """A figure of every row beside the row's columns: [ROWS, 1], or the scalar if a program has one row."""
    return value if ONE else value[:, None]
