# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Sums on the device of the figures of all programs of a scan: a few numbers, whatever the number of rows.

A scan is two kernels: one scans, and one adds up. If the GPU supports it, each kernel is launched before the kernel that
it follows has ended, and waits in ``gdc_wait`` before the steps that need the earlier kernel.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.language.extra.cuda import gdc_wait

from softcheck.judge.device import bins
from softcheck.judge.device._jit import INTERPRETED, OPTIONS, jit, launch_on
from softcheck.judge.device.fields import FEW_ROWS, FIELDS, MORE, FigureTable

FLOATS = 4
"""Figures per program: the error sum, and the largest error, share of the bound, and distance of a sum from 1."""
SUMS = 3
"""Counts per program: passed rows that have ULP errors, passed special rows, and fully masked rows among these."""
INTEGERS = SUMS + 3
"""Integers per program: the counts, then the rows of the three largest figures."""

_FLOATS, _SUMS, _INTEGERS = tl.constexpr(FLOATS), tl.constexpr(SUMS), tl.constexpr(INTEGERS)
_RESULTS = bins.TABLE + INTEGERS + 1 + FLOATS
_FOUND = _RESULTS + _RESULTS % 2
"""Words of a scan's results, so many that the table behind them is aligned as memory of its own: the same kernel writes
both."""
_TABLE_WORDS = len(FIELDS) * (FEW_ROWS + MORE)
_BINS, _MOST_ROWS = 8, 2048
"""Part of the table of all programs' counts that a program of the last kernel reads at once. It usually reads all rows
at once, since each read waits for memory."""
_NO_ROW = tl.constexpr(2**62)
_OVERLAPPING = 90


@jit
def leave(row: tl.tensor, left: tl.tensor, left_rows: tl.tensor, listed: tl.tensor) -> None:
    """Appends the rows, int64, of the lanes that are left to the list."""
    place = tl.atomic_add(left_rows + row * 0, tl.full(row.shape, 1, tl.int64), mask=left, sem="relaxed")
    tl.store(listed + place, row, mask=left)


@jit
def better(
    best: tl.tensor, best_row: tl.tensor, value: tl.tensor, row: tl.tensor, passed: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Updates the running maximum per lane and its row."""
    improved = passed & (value > best)
    return tl.where(improved, value, best), tl.where(improved, row, best_row)


@jit
def store_best(
    best: tl.tensor, best_row: tl.tensor, PLACE: tl.constexpr, floats: tl.tensor, integers: tl.tensor
) -> None:
    """Stores the program's maximum number PLACE (1 to 3) and the first row that reaches it."""
    value = tl.max(best, axis=0)
    tl.store(floats + tl.program_id(0) * _FLOATS + PLACE, value.to(tl.float64))
    row = tl.min(tl.where(best == value, best_row, _NO_ROW), axis=0)
    tl.store(integers + tl.program_id(0) * _INTEGERS + _SUMS - 1 + PLACE, row)


@jit
def store_sums(
    error_sum: tl.tensor,
    passed: tl.tensor,
    special: tl.tensor,
    masked: tl.tensor,
    floats: tl.tensor,
    integers: tl.tensor,
) -> None:
    """Stores the program's sums over its lanes."""
    tl.store(floats + tl.program_id(0) * _FLOATS, tl.sum(error_sum, axis=0))
    integers += tl.program_id(0) * _INTEGERS
    tl.store(integers, tl.sum(passed, axis=0))
    tl.store(integers + 1, tl.sum(special, axis=0))
    tl.store(integers + 2, tl.sum(masked, axis=0))


@jit
def _finish_kernel(
    floats: tl.tensor,
    integers: tl.tensor,
    counts: tl.tensor,
    programs: tl.tensor,
    left: tl.tensor,
    listed: tl.tensor,
    figures: tl.tensor,
    numbers: tl.tensor,
    histogram: tl.tensor,
    TABLES: tl.constexpr,
    COUNTS: tl.constexpr,
    BINS: tl.constexpr,
    ROWS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    OVERLAPS: tl.constexpr,
) -> None:
    if OVERLAPS:
        gdc_wait()
    # Each figure beside the histogram has a program of its own, since each waits for memory longer than it computes.
    if tl.program_id(0) < TABLES:
        number = tl.program_id(0) * BINS + tl.arange(0, BINS)
        found = tl.zeros([BINS], tl.int64)
        for first in range(0, programs, ROWS):
            row = first + tl.arange(0, ROWS)[:, None]
            stored = (row < programs) & (number < COUNTS)[None, :]
            part = tl.load(counts + row * COUNTS + number[None, :], mask=stored, other=0)
            found += tl.sum(part.to(tl.int64), axis=0)
        tl.store(histogram + number, found)
    else:
        figure = tl.program_id(0) - TABLES
        program = tl.arange(0, PROGRAMS)
        inside = program < programs
        floats_at, integers_at = floats + program * _FLOATS, integers + program * _INTEGERS
        if figure == 0:
            tl.store(figures, tl.sum(tl.load(floats_at, mask=inside, other=0.0), axis=0))
        elif figure < _FLOATS:
            rows_left = tl.load(left)
            value = tl.load(floats_at + figure, mask=inside, other=-1.0)
            row_of_each = tl.load(integers_at + _SUMS - 1 + figure, mask=inside, other=_NO_ROW)
            best = tl.max(value, axis=0)
            first_row = tl.min(tl.where(value == best, row_of_each, _NO_ROW), axis=0)
            tl.store(figures + figure, best)
            tl.store(numbers + _SUMS - 1 + figure, first_row)
            tl.store(listed + rows_left + figure - 1, first_row)
        elif figure < _FLOATS + _SUMS:
            place = figure - _FLOATS
            tl.store(numbers + place, tl.sum(tl.load(integers_at + place, mask=inside, other=0), axis=0))
        else:
            tl.store(numbers + _INTEGERS, tl.load(left))


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory that judgements on a device write to, one after the other.

    It is allocated once. Nothing in it is believed from one judgement to the next: a kernel or ``begin`` writes
    everything that is read.
    """

    floats: torch.Tensor
    """float64 [programs, FLOATS]."""
    integers: torch.Tensor
    """int64 [programs, INTEGERS]."""
    counts: torch.Tensor
    """Counts of elements in the first bins, for each program; int32 [programs, counts], without rows if programs have
    no tables."""
    found: torch.Tensor
    """Results of the scan, int64: counts of elements by bin, ``INTEGERS`` numbers, the count of rows left, ``FLOATS``
    figures; see ``Numbers``. They are 0 at first if programs have no tables of counts."""
    figures: torch.Tensor
    """A table of the rows that the scan left, if they are few: float64 [len(FIELDS), FEW_ROWS + MORE]."""
    table_histogram: torch.Tensor
    """Counts of the table's elements by bin, 0 at first; int64 [bins.ALL]."""
    left: torch.Tensor
    """Count of rows that did not pass the scan, 0 at first; int64 [1]."""
    zeroed: torch.Tensor
    """The memory of everything that is 0 at first."""
    read: torch.Tensor
    """The memory of ``found``, ``figures``, and the first bins.TABLE of ``table_histogram``."""
    copied: torch.Tensor
    """``read`` in the host's memory."""

    @property
    def histogram(self) -> torch.Tensor:
        """Counts of the scan's elements by bin; int64 [bins.TABLE]."""
        return self.found[: bins.TABLE]


@dataclass(frozen=True, slots=True)
class Scan:
    """Results of a scan, in device memory, until the next scan begins."""

    space: Workspace
    programs: int
    """Programs of the scan."""
    listed: torch.Tensor
    """Numbers of the rows that did not pass, in any order, then the rows of the three largest figures. The rest is not
    set; int64 [rows + MORE]."""

    @property
    def left(self) -> torch.Tensor:
        """Count of the rows that did not pass; int64 [1]."""
        return self.space.left

    def copied(self) -> NDArray[np.int64]:
        """``Workspace.read`` on the host, until the next call. Waits for the device."""
        space = self.space
        space.copied.copy_(space.read, non_blocking=True)
        if space.read.is_cuda:
            torch.cuda.current_stream(space.read.device).synchronize()
        return np.asarray(space.copied)


class Numbers:
    """Figures of the rows that passed a scan, and the number of rows that did not, from ``Scan.copied``."""

    def __init__(self, copied: NDArray[np.int64]) -> None:
        self.histogram = copied[: bins.TABLE]
        """Counts of elements by bin."""
        counts = copied[bins.TABLE : bins.TABLE + INTEGERS + 1].tolist()
        self.passed, self.special, self.fully_masked = counts[:SUMS]
        self.left: int = counts[INTEGERS]
        figures = copied[bins.TABLE + INTEGERS + 1 : _RESULTS].view(np.float64).tolist()
        self.error_sum: float = figures[0]
        self.largest: list[float] = figures[1:]
        """Error, share of the bound, and distance of a sum from 1; -1 where no row has the figure."""
        table = copied[_FOUND:]
        self.table = FigureTable(table[:_TABLE_WORDS].view(np.float64).reshape(len(FIELDS), FEW_ROWS + MORE))
        """Figures of the rows that were left and of the rows of the largest figures, if they are few."""
        self.table_histogram = table[_TABLE_WORDS:]
        """Counts of the elements of the rows that were left, by bin, if they are few."""


@lru_cache(maxsize=16)
def _target(driver: Any, device: int) -> tuple[bool, int]:
    """Returns True if the current target is an NVIDIA GPU, and its compute capability."""
    del device
    target = driver.get_current_target()
    nvidia = target.backend == "cuda"
    return nvidia, int(target.arch) if nvidia else 0


def _current_target() -> tuple[bool, int]:
    driver: Any = triton.runtime.driver.active
    return _target(driver, driver.get_current_device())


def is_nvidia() -> bool:
    """True if kernels are compiled for an NVIDIA GPU, so that they may hold PTX."""
    return not INTERPRETED and _current_target()[0]


def overlaps() -> bool:
    """True if a kernel may be launched before the kernel that it follows has ended.

    NVIDIA GPUs of compute capability 9.0 and later can do so.
    """
    return is_nvidia() and _current_target()[1] >= _OVERLAPPING


def closely() -> dict[str, bool]:
    """Returns launch options for a kernel that may start before the previous kernel has ended."""
    return {"launch_pdl": True} if overlaps() else {}


@lru_cache(maxsize=8)
def _workspace(programs: int, device: torch.device, counts: int, tables: bool) -> Workspace:  # noqa: FBT001
    space = torch.zeros(_FOUND + _TABLE_WORDS + bins.ALL + 1, dtype=torch.int64, device=device)
    read = space[: _FOUND + _TABLE_WORDS + bins.TABLE]
    figures = space[_FOUND:][:_TABLE_WORDS].view(torch.float64).view(len(FIELDS), FEW_ROWS + MORE)
    return Workspace(
        floats=torch.empty((programs, FLOATS), dtype=torch.float64, device=device),
        integers=torch.empty((programs, INTEGERS), dtype=torch.int64, device=device),
        counts=torch.empty((programs if tables else 0, counts), dtype=torch.int32, device=device),
        found=space[:_FOUND],
        figures=figures,
        table_histogram=space[_FOUND + _TABLE_WORDS : -1],
        left=space[-1:],
        # If programs have tables, they write all results.
        zeroed=space[_FOUND + _TABLE_WORDS :] if tables else space,
        read=read,
        copied=torch.empty(read.shape, dtype=read.dtype, pin_memory=device.type == "cuda"),
    )


def begin(rows: int, tiles: int, most_programs: int, device: torch.device, counts: int = bins.TABLE) -> Scan:
    """Prepares memory for a scan of so many tiles, whose programs store ``counts`` counts each.

    The scan's kernel must be launched next, and may use ``closely``.
    """
    space = _workspace(most_programs, device, counts, is_nvidia())
    space.zeroed.zero_()
    listed = torch.empty(rows + MORE, dtype=torch.int64, device=device)
    return Scan(space, min(tiles, most_programs), listed)


def launch_scan(
    scan: Scan,
    kernel: Any,
    tensors: tuple[torch.Tensor, torch.Tensor],
    key: Hashable,
    scalars: tuple[float, ...],
    sizes: tuple[int, ...],
    flags: tuple[Any, ...],
    options: dict[str, Any],
) -> Scan:
    """Launches a scan's kernel on input and output, and adds up the results of all programs; nothing is waited for.

    The kernel takes the workspace, the constants and the margin, the sizes, the strides, and the constants of compilation, in
    this order. ``launch_on`` explains ``key``.
    """
    x, y = tensors
    space = scan.space
    memory = (space.left, scan.listed, space.floats, space.integers, space.histogram, space.counts)
    given = (*memory, *scalars, *sizes, *x.stride(), *y.stride(), *flags)
    launch_on(tensors, kernel, scan.programs, key, given, options)
    return _finish(scan)


def _finish(scan: Scan) -> Scan:
    space = scan.space
    numbers = space.found[bins.TABLE :]
    figures = numbers[INTEGERS + 1 :].view(torch.float64)
    tables, counts = bins.TABLE // _BINS if is_nvidia() else 0, space.counts.shape[1]
    programs = int(triton.next_power_of_2(scan.programs))
    given = (
        space.integers,
        space.counts,
        scan.programs,
        space.left,
        scan.listed,
        figures,
        numbers,
        space.found,
        tables,
        counts,
        _BINS,
        min(_MOST_ROWS, programs),
        programs,
        overlaps(),
    )
    options = {"num_warps": 8, **closely(), **OPTIONS}
    launch_on((space.floats,), _finish_kernel, tables + FLOATS + SUMS + 1, (scan.programs, counts), given, options)
    return scan
