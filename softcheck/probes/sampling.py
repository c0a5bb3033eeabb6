"""Calls on batches of drawn rows, one after the other, and the judgement of all their elements where they lie.

Batches grow as long as they take little time, so that a slow variant is not asked for more than it can do.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from softcheck.calling.call import Placed, Returned, call_on_device, to_bits
from softcheck.cases.bit_rows import format_rows
from softcheck.contract import FindingKind, Violation
from softcheck.errors import TooManyRowsError
from softcheck.judge.by_contract import by_contract, judge_in_place
from softcheck.judge.measurement import Measurement
from softcheck.probes.base import Subject
from softcheck.probes.helpers import free_bytes
from softcheck.probes.outcome import Outcome, RandomRows
from softcheck.probes.poison import nan_filled

WIDEST_WITNESS = 1 << 13
"""Columns beyond which a row's bits are too long to hand on."""

_BYTES_PER_ELEMENT = 64
"""Bytes that an element may take at once: input, its copy, output, and numbers of the families that are drawn."""


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """Sizes of batches, and the end of a sample."""

    rows: int
    elements: int
    """Most rows and elements of the first batch."""
    most_rows: int
    most_elements: int
    growth: int
    """Factor by which the next batch may be larger after a batch that took less than ``quick`` seconds."""
    quick: float
    target: int
    """Elements after which a sample ends."""
    seconds: float
    """Seconds after which a sample ends, if it would not reach its target within ``patience`` at this rate.

    On a GPU each width's first batch, for which kernels are compiled, is not counted; after twice as many seconds of
    such batches no other width is tried."""
    patience: float


ON_GPU = SampleLimits(
    rows=1 << 12,
    elements=1 << 20,
    most_rows=1 << 22,
    most_elements=1 << 27,
    growth=8,
    quick=0.1,
    target=10_000_000_000,
    seconds=3.0,
    patience=12.0,
)
ON_CPU = SampleLimits(
    rows=1 << 3,
    elements=1 << 12,
    most_rows=1 << 16,
    most_elements=1 << 20,
    growth=4,
    quick=0.15,
    target=1 << 28,
    seconds=2.0,
    patience=2.0,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one width that can be drawn again from what ``name`` says."""

    columns: int
    draw: Callable[[int], torch.Tensor]
    """Gives at most so many rows, [rows, columns], of the format's dtype, on the variant's device."""
    name: str
    shown: NDArray[np.int64] | None = None
    """Number of bit patterns that each row is the first to show; None if rows are not made for that."""
    exactly: int | None = None
    """Rows of a batch that variants get only if they are quick with the most rows of other batches."""


@dataclass(slots=True)
class _Room:
    """The largest batch that a variant may get. A variant may be slow by the row or by the element."""

    limits: SampleLimits
    rows: int = field(init=False)
    elements: int = field(init=False)
    most_rows: int = field(init=False)
    most_elements: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows, self.elements = self.limits.rows, self.limits.elements
        self.most_rows, self.most_elements = self.limits.most_rows, self.limits.most_elements

    def rows_of(self, columns: int) -> int:
        return max(1, min(self.rows, self.elements // columns))

    def grow(self, rows: int, columns: int, seconds: float) -> None:
        """Grows after a quick batch, by what limited it."""
        if seconds < self.limits.quick:
            if 2 * rows > self.rows:
                self.rows = min(self.most_rows, self.limits.growth * self.rows)
            if 2 * rows * columns > self.elements:
                self.elements = min(self.most_elements, self.limits.growth * self.elements)

    def shrink(self, rows: int, columns: int, seconds: float) -> None:
        """Shrinks after a slow batch."""
        if seconds > 5 * self.limits.quick:
            self.rows = max(1, min(self.rows, rows) // self.limits.growth)
            self.elements = max(1, min(self.elements, rows * columns) // self.limits.growth)

    def halve(self, rows: int, columns: int) -> bool:
        """Takes note that a batch found too little memory. False if it was as small as they come."""
        self.elements = self.most_elements = rows * columns // 2
        return rows > 1


def sample(subject: Subject, batches: Iterable[Batch], limits: SampleLimits) -> Outcome:
    """Calls the variant on one batch after the other until elements, seconds or batches end.

    Each kind of violation is kept as the first batch that breaks it shows it, with a row that breaks it alone if there
    is one. Raises UninterpretableError.
    """
    room = _Room(limits)
    if subject.device.type == "cuda":
        room.most_elements = min(room.most_elements, free_bytes(subject.device) // _BYTES_PER_ELEMENT)
    seen = _Gathered(subject)
    spent = preparing = 0.0
    for batch in batches:
        if batch.exactly is not None and room.rows < limits.most_rows:
            continue
        is_new = subject.setting.on_gpu and batch.columns not in seen.sampled.widths
        if is_new and preparing > 2 * limits.seconds:
            continue
        rows, took = _taken(batch, room, seen)
        room.grow(rows, batch.columns, took)
        if is_new:
            preparing += took
        else:
            room.shrink(rows, batch.columns, took)
            spent += took
        judged = seen.sampled.elements
        # Other processes may use the GPU too: what is soon done then is worth its time.
        is_hopeless = spent > limits.seconds and spent * limits.target > limits.patience * judged
        if seen.is_over or judged >= limits.target or is_hopeless:
            break
    return seen.outcome()


def _taken(batch: Batch, room: _Room, seen: "_Gathered") -> tuple[int, float]:
    """Rows and seconds of the largest batch that there is memory for; no rows if not for the only one wanted."""
    while True:
        rows = batch.exactly or room.rows_of(batch.columns)
        started = time.perf_counter()
        try:
            seen.add(batch, batch.draw(rows))
        except (torch.OutOfMemoryError, TooManyRowsError) as error:
            if batch.exactly is not None:
                return 0, time.perf_counter() - started
            if isinstance(error, TooManyRowsError):
                room.most_rows = room.rows = min(room.rows, rows) // 2
            elif not room.halve(rows, batch.columns):
                raise
            continue
        return rows, time.perf_counter() - started


class _Gathered:
    """The judged extent, and what was broken."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._fmt = subject.setting.fmt
        self.sampled = RandomRows()
        self.is_over = False
        self._fatal = False
        self._violations: dict[FindingKind, Violation] = {}
        self._witnesses: dict[FindingKind, str] = {}

    def add(self, batch: Batch, x: torch.Tensor) -> None:
        """Calls the variant and judges its output. Raises torch.OutOfMemoryError if the device has too little room."""
        returned = self._call(x)
        self._fatal = returned.fatal
        self.is_over = returned.fatal or returned.output is None
        self._keep(returned.violations, batch, x, None)
        if returned.output is None:
            return
        self._keep(self._judged(x, returned).violations, batch, x, returned.output)
        rows, columns = x.shape
        shown = 0 if batch.shown is None else int(batch.shown[:rows].sum())
        self.sampled = self.sampled.plus(
            RandomRows(elements=rows * columns, rows=rows, widths=(columns,), patterns=shown)
        )

    def outcome(self) -> Outcome:
        return Outcome(
            violations=tuple(self._violations.values()),
            fatal=self._fatal,
            sampled=self.sampled,
            witnesses=self._witnesses,
        )

    def _call(self, x: torch.Tensor) -> Returned:
        with nan_filled():
            return call_on_device(
                self._subject.variant.function, Placed(x, x.view(-1), self._fmt), self._subject.setting.operation
            )

    def _judged(self, x: torch.Tensor, returned: Returned) -> Measurement:
        subject, output = self._subject, returned.output
        assert output is not None
        return by_contract(
            subject.variant,
            self._fmt,
            (x.shape[0], x.shape[1]),
            subject.device,
            lambda arithmetic: judge_in_place(subject.variant, x, output, self._fmt, arithmetic),
            of_cpu_library=returned.of_cpu_library,
        )

    def _keep(self, found: tuple[Violation, ...], batch: Batch, x: torch.Tensor, output: torch.Tensor | None) -> None:
        for violation in found:
            known = self._violations.get(violation.kind)
            if known is not None:
                shares = [v.share for v in (known, violation) if v.share is not None]
                self._violations[violation.kind] = msgspec.structs.replace(
                    known, count=known.count + violation.count, share=max(shares, default=None)
                )
                continue
            shape = f"{x.shape[0]}\N{MULTIPLICATION SIGN}{x.shape[1]}"
            words = f"{shape}, {batch.name}: {violation.message}"
            if output is not None and violation.row is not None:
                words = f"{words}; {self._alone(violation.kind, x[violation.row : violation.row + 1])}"
            self._violations[violation.kind] = msgspec.structs.replace(violation, message=words)

    def _alone(self, kind: FindingKind, row: torch.Tensor) -> str:
        """Calls the variant on one row by itself, and keeps the row's bits if it breaks the promise there too."""
        row = row.clone()
        returned = self._call(row)
        if returned.output is None or not any(v.kind is kind for v in self._judged(row, returned).violations):
            return "the row by itself is right"
        if row.shape[1] <= WIDEST_WITNESS:
            self._witnesses[kind] = format_rows(to_bits(row, self._fmt), self._fmt)[0]
        return "the row by itself is wrong too"
