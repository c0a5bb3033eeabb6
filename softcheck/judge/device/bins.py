# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""The histogram of softcheck.judge.histogram on the device: counts in shared memory, added to global memory at the end.

Triton's own histogram costs some hundred operations per element at this many bins, and atomic additions to global memory
are too many for the L2 cache. On NVIDIA GPUs a table of ``TABLE`` counts is therefore declared in PTX, and elements are
counted with one shared-memory addition each. Elsewhere, and under the interpreter, counts go to global memory directly.
"""

import triton.language as tl

from softcheck.judge.device import exchange
from softcheck.judge.device._jit import constexpr_function, jit
from softcheck.judge.device.exp64 import high_word
from softcheck.judge.histogram import BINS_PER_OCTAVE, LEAST

TABLE = 2048
"""Counts in shared memory, for errors below 2^22 ULP."""

EXCHANGE = tl.constexpr(4 * (TABLE + 4))


def largest_error(counts: int) -> float:
    """Returns the ULPs below which errors lie in the first ``counts`` bins, a multiple of BINS_PER_OCTAVE.

    Bin 0 takes the place of a bin of the last octave, so this octave is left out.
    """
    return LEAST * 2.0 ** (counts // BINS_PER_OCTAVE - 1)


def counts_for(error: float) -> int:
    """Counts of the table, a power of two, that hold errors up to ``error`` ULPs; at most TABLE."""
    counts = BINS_PER_OCTAVE
    while counts < TABLE and largest_error(counts) <= error:
        counts *= 2
    return counts


ALL = (2047 - 1023 + 10) * BINS_PER_OCTAVE + 1
"""Number of bins up to the largest float64."""

_TABLE = tl.constexpr(TABLE)
_SHIFT = tl.constexpr(14)
"""Bits of a high word below the exponent and the first six bits after the point."""
_FIRST = tl.constexpr((1023 - 10) * BINS_PER_OCTAVE - 1)
_SHIFT_OF_FLOAT32 = tl.constexpr(17)
_FIRST_OF_FLOAT32 = tl.constexpr((127 - 10) * BINS_PER_OCTAVE - 1)

WORDS = EXCHANGE.value // 4 + exchange.WORDS
"""Words in shared memory: the counts, a place for elements that are not counted, three unused words, and the
exchanges."""
_WORDS = tl.constexpr(WORDS)

assert LEAST == 2.0**-10
assert BINS_PER_OCTAVE == 64


@constexpr_function
def _declaration(words: int) -> str:
    return f".shared .align 16 .b32 softcheck_bins[{words}];\nmov.u32 $0, softcheck_bins;"


@jit
def open_table(NVIDIA: tl.constexpr) -> tl.tensor:
    """Declares the table, sets it to zero, and returns its address. Call it once per kernel, first.

    The memory of softcheck.judge.device.exchange lies behind the table, ``EXCHANGE`` bytes from its address on.
    """
    if NVIDIA:
        table = tl.inline_asm_elementwise(
            _declaration(_WORDS),
            "=r,r",
            [tl.num_programs(0)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
        address = table + tl.arange(0, _TABLE) * 4
        tl.inline_asm_elementwise(
            "st.shared.u32 [$1], 0;\nmov.u32 $0, 0;", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.debug_barrier()
    else:
        table = tl.num_programs(0)
    return table


@jit
def bin_of(error: tl.tensor) -> tl.tensor:
    """Bin number of float64 errors >= 0."""
    return tl.maximum((high_word(error) >> _SHIFT) - _FIRST, 0)


@jit
def bin_of_small(error: tl.tensor) -> tl.tensor:
    """Bin number of float32 errors >= 0."""
    return _place(error) - _FIRST_OF_FLOAT32


@jit
def _place(error: tl.tensor) -> tl.tensor:
    """Bin number of float32 errors >= 0, plus ``_FIRST_OF_FLOAT32``."""
    return tl.maximum(error.to(tl.int32, bitcast=True) >> _SHIFT_OF_FLOAT32, _FIRST_OF_FLOAT32)


@jit
def count(
    table: tl.tensor,
    histogram: tl.tensor,
    number: tl.tensor,
    counted: tl.tensor,
    NVIDIA: tl.constexpr,
    BEYOND: tl.constexpr,
) -> None:
    """Counts elements. With BEYOND, bins may lie outside the table."""
    if NVIDIA:
        # Elements that are not counted go to a place beyond the table: a branch around each addition would cost more.
        counted_here = counted & (number < _TABLE) if BEYOND else counted
        address = table + tl.where(counted_here, number, _TABLE) * 4
        tl.inline_asm_elementwise(
            "red.shared.add.u32 [$1], 1;\nmov.u32 $0, 0;", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
        )
        if BEYOND:
            far = counted & (number >= _TABLE)
            tl.atomic_add(histogram + number, tl.full(number.shape, 1, tl.int64), mask=far, sem="relaxed")
    else:
        tl.atomic_add(histogram + number, tl.full(number.shape, 1, tl.int64), mask=counted, sem="relaxed")


@jit
def count_rows(
    table: tl.tensor,
    histogram: tl.tensor,
    error: tl.tensor,
    inside: tl.tensor,
    passed: tl.tensor,
    EVEN: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    """Counts the elements of rows that passed: all of a row if EVEN, else only those ``inside``.

    ``error``, float32 >= 0, is [rows, columns], ``inside`` [1, columns], ``passed`` [rows, 1] or a scalar.
    """
    place = _place(error)
    if not EVEN:
        place = tl.where(inside, place, _FIRST_OF_FLOAT32 + _TABLE)
    if NVIDIA:
        # One multiplication and addition sends the other rows' elements to the place beyond the table.
        beyond = table + _TABLE * 4
        address = place * tl.where(passed, 4, 0) + tl.where(passed, table - _FIRST_OF_FLOAT32 * 4, beyond)
        tl.inline_asm_elementwise(
            "red.shared.add.u32 [$1], 1;\nmov.u32 $0, 0;", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
        )
    else:
        # Not a broadcast: Triton 3.6's interpreter reads an atomic operation's mask as if it were contiguous.
        number = tl.where(passed, place - _FIRST_OF_FLOAT32, _TABLE)
        tl.atomic_add(histogram + number, tl.full(number.shape, 1, tl.int64), mask=number < _TABLE, sem="relaxed")


@jit
def close_table(table: tl.tensor, histogram: tl.tensor, NVIDIA: tl.constexpr) -> None:
    """Adds the table's counts to ``histogram`` [ALL] int64 in global memory. Call it once per kernel, last."""
    if NVIDIA:
        tl.debug_barrier()
        number = tl.arange(0, _TABLE)
        counts = tl.inline_asm_elementwise(
            "ld.shared.s32 $0, [$1];", "=r,r", [table + number * 4], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.atomic_add(histogram + number, counts.to(tl.int64), mask=counts != 0, sem="relaxed")


@jit
def store_table(table: tl.tensor, counts: tl.tensor, COUNTS: tl.constexpr, NVIDIA: tl.constexpr) -> None:
    """Stores the first COUNTS of the table in the program's own row of ``counts``. Call it once per kernel, last.

    ``counts`` is int32 [programs, COUNTS]. If every program added to one histogram, the additions would wait for each
    other longer than the programs run.
    """
    if NVIDIA:
        tl.debug_barrier()
        number = tl.arange(0, COUNTS)
        found = tl.inline_asm_elementwise(
            "ld.shared.s32 $0, [$1];", "=r,r", [table + number * 4], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.store(counts + tl.program_id(0) * COUNTS + number, found)
