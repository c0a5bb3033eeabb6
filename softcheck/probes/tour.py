"""Calls on telling rows at one shape after the other, until the time is over, with the promises that they break."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits
from softcheck.cases.telling import telling_batch
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.probes.arrivals import MOST
from softcheck.probes.base import Subject
from softcheck.probes.judged import Calls, Judged
from softcheck.probes.outcome import Outcome
from softcheck.probes.regime_map import paths_of
from softcheck.probes.regime_plans import PlannedShape, TrialLimits
from softcheck.probes.shape_plan import Shape
from softcheck.probes.sweep import merged
from softcheck.variants.signatures import Recorder, tracing
from softcheck.variants.source import Source

_MOST_TRACED_ROWS, _MOST_TRACED_ELEMENTS = 3, 512
"""Rows or elements of an interpreted call whose lines are noted: Python runs the kernels there, and slower if it is
traced."""


class Tour:
    """Calls at one shape after the other until the time is over."""

    def __init__(
        self, subject: Subject, source: Source, limits: TrialLimits, rng: np.random.Generator, *, traces: bool
    ) -> None:
        self._traces = traces
        self._subject = subject
        self._limits = limits
        self._rng = rng
        self._source = source
        self._recorder = Recorder(source.files)
        self._calls = Calls(subject, self._traced, most=MOST if subject.setting.on_gpu else 1)
        self._fatal = False
        self._skipped: str | None = None
        self._tried: list[Shape] = []
        self._failing: dict[FindingKind, list[Shape]] = defaultdict(list)
        self._first: dict[FindingKind, Violation] = {}
        self._pace: dict[int, float] = {}
        """Seconds per row by the power of two of the columns, of the slowest call so far."""

    def of(self, targets: Iterable[PlannedShape]) -> Outcome:
        """Tries the targets in order. Targets that would take longer than the remaining time are left out."""
        clock = time.perf_counter if self._subject.setting.on_gpu else time.process_time
        begun, left_out = clock(), 0
        shapes: list[Shape] = []
        for target in targets:
            remaining = self._limits.seconds - (clock() - begun)
            if self._fatal or remaining <= 0 or self._expected(target.shape) > remaining:
                left_out += 1
                continue
            before = clock()
            for bits in self._inputs(target):
                if self._fatal or clock() - begun > self._limits.seconds:
                    break
                self._call(bits, len(shapes))
                shapes.append(target.shape)
                if self._calls.is_full:
                    self._settle(shapes)
            if shapes and shapes[-1] == target.shape:
                self._note(target.shape, (clock() - before) / max(1, target.calls))
        self._settle(shapes)
        return self._outcome(left_out)

    def _traced(self, x: torch.Tensor) -> Any:
        is_small = len(x) <= _MOST_TRACED_ROWS or x.numel() <= _MOST_TRACED_ELEMENTS
        if not self._subject.setting.on_gpu and not (self._traces and is_small):
            return self._subject.variant.function(x)
        with tracing(self._recorder):
            return self._subject.variant.function(x)

    def _inputs(self, target: PlannedShape) -> Iterator[Bits]:
        """Telling rows in calls of the target's shape: each row again and again in a tall one."""
        rows, columns = target.shape
        fmt = self._subject.setting.fmt
        room = max(self._limits.least_rows, self._limits.most_batch // columns)
        wanted = min(rows * target.calls, self._limits.rows, room)
        batch = telling_batch(
            columns,
            target.tile,
            fmt,
            self._rng,
            values=[n for n in self._source.numbers if n],
            places=[n for n in self._source.sizes if n <= columns],
            most=wanted,
        )
        for first in range(0, min(len(batch), rows * target.calls), rows):
            yield np.ascontiguousarray(np.take(batch, range(first, first + rows), axis=0, mode="wrap"))

    def _call(self, bits: Bits, index: int) -> None:
        try:
            self._calls.make(bits, index)
        except UninterpretableError as error:
            self._skipped = str(error)

    def _settle(self, shapes: Sequence[Shape]) -> None:
        for index, judged in self._calls.settle():
            self._add(shapes[index], judged)

    def _add(self, shape: Shape, judged: Judged) -> None:
        self._tried.append(shape)
        self._fatal |= judged.fatal
        for violation in judged.violations:
            known = self._failing[violation.kind]
            is_first = shape.elements < min((each.elements for each in known), default=shape.elements + 1)
            self._first[violation.kind] = merged(self._first.get(violation.kind), violation, first=is_first)
            known.append(shape)

    def _expected(self, shape: Shape) -> float:
        """Seconds that a call may take, by the nearest width that was called and by what any kernel takes."""
        wanted = int(np.log2(shape.columns))
        least = shape.rows * self._limits.seconds_per_row + shape.elements * self._limits.seconds_per_element
        near = min(self._pace, key=lambda width: abs(width - wanted), default=None)
        if near is None:
            return least
        return max(least, shape.rows * self._pace[near] * max(1.0, 2.0 ** (wanted - near)))

    def _note(self, shape: Shape, seconds: float) -> None:
        width = int(np.log2(shape.columns))
        self._pace[width] = max(self._pace.get(width, 0.0), seconds / max(4, shape.rows))

    def _outcome(self, left_out: int) -> Outcome:
        shapes = list(dict.fromkeys(self._tried))
        # The probe "empties" makes calls without elements.
        paths = {} if self._fatal else paths_of(self._subject, self._source, [Shape(0, 3), Shape(3, 0), *shapes])
        lines = self._recorder.lines.union(*(path.lines for path in paths.values()))
        return Outcome(
            violations=tuple(self._first.values()),
            shapes=tuple((shape.rows, shape.columns) for shape in shapes),
            paths=tuple(paths[shape].name if shape in paths else "" for shape in shapes),
            lines=tuple(sorted(lines)),
            failing_shapes={
                kind: tuple(dict.fromkeys((shape.rows, shape.columns) for shape in broken))
                for kind, broken in self._failing.items()
            },
            fatal=self._fatal,
            untried=left_out,
            skipped=self._skipped,
        )
