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
"""Counts in shared memory: errors below 2^22 ULP."""

EXCHANGE = tl.constexpr(4 * (TABLE + 4))

ALL = (2047 - 1023 + 10) * BINS_PER_OCTAVE + 2
"""Bins up to the largest float64."""

_TABLE = tl.constexpr(TABLE)
_SHIFT = tl.constexpr(14)
"""Bits of a high word below the exponent and the first six bits after the point."""
_FIRST = tl.constexpr((1023 - 10) * BINS_PER_OCTAVE - 2)
_SHIFT_OF_FLOAT32 = tl.constexpr(17)
_FIRST_OF_FLOAT32 = tl.constexpr((127 - 10) * BINS_PER_OCTAVE - 2)

WORDS = EXCHANGE.value // 4 + exchange.WORDS
"""In shared memory: the counts, a place for what is not counted, three that are not used, and the exchanges."""
_WORDS = tl.constexpr(WORDS)

assert LEAST == 2.0**-10
assert BINS_PER_OCTAVE == 64


@constexpr_function
def _declaration(words: int) -> str:
    return f".shared .align 16 .b32 softcheck_bins[{words}];\nmov.u32 $0, softcheck_bins;"


@jit
def open_table(NVIDIA: tl.constexpr) -> tl.tensor:
    """Declares the table, sets it to zero, and returns its address. Call it once per kernel, first.

    Behind the table, ``EXCHANGE`` bytes from its address on, lies what softcheck.judge.device.exchange takes.
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
    """Bin number of float64 errors >= 0; those below 2^-1022 count as zero."""
    word = high_word(error)
    return tl.maximum((word >> _SHIFT) - _FIRST, tl.minimum(word, 1))


@jit
def bin_of_small(error: tl.tensor) -> tl.tensor:
    """Bin number of float32 errors >= 0."""
    bits = error.to(tl.int32, bitcast=True)
    return tl.maximum((bits >> _SHIFT_OF_FLOAT32) - _FIRST_OF_FLOAT32, tl.minimum(bits, 1))


@jit
def count(
    table: tl.tensor,
    histogram: tl.tensor,
    number: tl.tensor,
    counted: tl.tensor,
    NVIDIA: tl.constexpr,
    BEYOND: tl.constexpr,
) -> None:
    """Counts elements. BEYOND says that bins may lie outside the table."""
    if NVIDIA:
        # A place beyond the table takes what is not counted: a branch around each addition would cost more.
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
    table: tl.tensor, histogram: tl.tensor, number: tl.tensor, passed: tl.tensor, NVIDIA: tl.constexpr
) -> None:
    """Counts all elements of rows that passed; ``number``, [rows, columns], is TABLE at most, ``passed`` [rows, 1] or a scalar."""
    if NVIDIA:
        # One multiplication and addition takes the other rows' elements to the place beyond the table.
        address = number * tl.where(passed, 4, 0) + tl.where(passed, table, table + _TABLE * 4)
        tl.inline_asm_elementwise(
            "red.shared.add.u32 [$1], 1;\nmov.u32 $0, 0;", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
        )
    else:
        # Not a broadcast: Triton 3.6's interpreter reads an atomic operation's mask as if it were contiguous.
        counted = tl.where(passed, number, _TABLE) < _TABLE
        tl.atomic_add(histogram + number, tl.full(number.shape, 1, tl.int64), mask=counted, sem="relaxed")


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
def store_table(table: tl.tensor, counts: tl.tensor, NVIDIA: tl.constexpr) -> None:
    """Stores the table in the program's own ``counts`` [TABLE] int32, for ``finish`` to add up. Call it once, last.

    Additions to one histogram by every program would wait for each other longer than the programs run.
    """
    if NVIDIA:
        tl.debug_barrier()
        number = tl.arange(0, _TABLE)
        found = tl.inline_asm_elementwise(
            "ld.shared.s32 $0, [$1];", "=r,r", [table + number * 4], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.store(counts + number, found)
