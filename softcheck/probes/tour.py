"""Calls on adversarial rows at one shape after the other, until the budget is spent, with the promises that they break."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits
from softcheck.calling import launches
from softcheck.cases.telling import telling_batch
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.probes.base import Subject
from softcheck.probes.judged import MOST, Calls, Judged
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

_COMPILED = 30
"""Cost of a width for which a kernel may be compiled on a GPU."""
_ALIGNED = 16
"""Divisor of a size that Triton compiles for anew."""


class Tour:
    """Calls at one shape after the other until the budget is spent."""

    def __init__(
        self, subject: Subject, source: Source, limits: TrialLimits, rng: np.random.Generator, *, traces: bool
    ) -> None:
        self._traces = traces
        self._subject = subject
        self._limits = limits
        self._rng = rng
        self._source = source
        self._recorder = Recorder(source.files, conditions=source.condition_lines)
        self._calls = Calls(subject, self._traced, most=MOST if subject.setting.on_gpu else 1)
        self._fatal = False
        self._skipped: str | None = None
        self._tried: list[Shape] = []
        self._failing: dict[FindingKind, list[Shape]] = defaultdict(list)
        self._beside: deque[PlannedShape] = deque()
        self._first: dict[FindingKind, Violation] = {}
        self._compiled: set[tuple[int, bool]] = set()
        self._launches = subject.setting.on_gpu
        """True once a call has launched a kernel: programs that no kernel runs cost nothing."""

    def of(self, targets: Iterable[PlannedShape]) -> Outcome:
        """Tries the targets in order. Targets that would cost more than is left are left out.

        After the first shape that breaks a promise, shapes with half and with twice its rows and columns come next, so
        that the finding can say for which of these it holds.
        """
        left_out = 0
        # First shapes of regimes cost of their own budget, and then of everyone's.
        left = {True: self._limits.budget_for_firsts, False: self._limits.budget}
        shapes: list[Shape] = []
        plan = iter(targets)
        while (target := self._beside.popleft() if self._beside else next(plan, None)) is not None:
            is_own = target.is_first and left[True] > left[False]
            if self._fatal or left[is_own] <= 0:
                left_out += 1
                break
            if self._cost(target) > left[is_own]:
                left_out += 1
                continue
            left[is_own] -= self._compiling(target.shape)
            for bits in self._inputs(target):
                if self._fatal or left[is_own] <= 0:
                    break
                before = launches.counted()
                self._call(bits, len(shapes))
                self._launches |= launches.counted() != before
                left[is_own] -= self._cost(target)
                shapes.append(target.shape)
                if self._calls.is_full:
                    self._settle(shapes)
        self._settle(shapes)
        return self._outcome(left_out)

    def _traced(self, x: torch.Tensor) -> Any:
        is_small = len(x) <= _MOST_TRACED_ROWS or x.numel() <= _MOST_TRACED_ELEMENTS
        if not self._subject.setting.on_gpu and not (self._traces and is_small):
            return self._subject.variant.function(x)
        with tracing(self._recorder):
            return self._subject.variant.function(x)

    def _inputs(self, target: PlannedShape) -> Iterator[Bits]:
        """Adversarial rows in calls of the target's shape: each row again and again in a tall one."""
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
            # Copies of whole blocks: a place for each row of a tall matrix takes ten times as long.
            yield np.resize(np.roll(batch, -first, axis=0), (rows, columns))

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
            if not self._failing:
                self._beside.extend(self._neighbours(shape))
            known = self._failing[violation.kind]
            is_first = shape.elements < min((each.elements for each in known), default=shape.elements + 1)
            self._first[violation.kind] = merged(self._first.get(violation.kind), violation, first=is_first)
            known.append(shape)

    def _neighbours(self, shape: Shape) -> Iterator[PlannedShape]:
        rows, columns = shape
        for near in ((2 * rows, columns), (rows // 2, columns), (rows, 2 * columns), (rows, columns // 2)):
            fits = near[1] <= self._limits.most_columns and near[0] * near[1] <= self._limits.most_elements
            if fits and 0 not in near:
                yield PlannedShape(Shape(*near), max(1, near[1] // 4))

    def _cost(self, target: PlannedShape) -> float:
        """Returns the cost of one call: one, more for its elements, and the programs that an interpreter runs."""
        shape = target.shape
        is_interpreted = self._launches and not self._subject.setting.on_gpu
        setting, elements = self._subject.setting, shape.elements / self._limits.elements_per_cost
        calls = shape.rows if setting.has_row_calls else 1
        return calls * setting.cost_of_call + target.programs * shape.rows * is_interpreted + elements

    def _compiling(self, shape: Shape) -> float:
        """Returns the cost of a width that kernels may be compiled for on a GPU, the first time."""
        key = shape.columns.bit_length(), shape.columns % _ALIGNED == 0
        if not self._subject.setting.on_gpu or key in self._compiled:
            return 0.0
        self._compiled.add(key)
        return _COMPILED

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
            arcs=tuple(sorted(self._recorder.arcs.union(*(path.arcs for path in paths.values())))),
            failing_shapes={
                kind: tuple(dict.fromkeys((shape.rows, shape.columns) for shape in broken))
                for kind, broken in self._failing.items()
            },
            fatal=self._fatal,
            is_cut=bool(left_out),
            skipped=self._skipped,
        )
