"""Telling rows at every size at which a kernel may change its ways, as its source and common habits suggest.

Many kernels are right on ordinary sizes and wrong in one path: for one row, from some width on, where the number of
tiles is odd, or beyond some number of elements. The shapes come from ``shape_plan``, the rows from ``cases.telling``.
Each trial has a limit of time, and says how many of its shapes were not tried.
"""

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits
from softcheck.cases.telling import telling_batch
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.probes import shape_plan
from softcheck.probes.arrivals import MOST
from softcheck.probes.base import Probe, Setting, Subject, Trial, skipped_of
from softcheck.probes.judged import Calls, Judged
from softcheck.probes.outcome import Conclusion, Coverage, Outcome, SeenRegime, Shown
from softcheck.probes.regime_map import Regime, paths_of, regimes_of
from softcheck.probes.shape_plan import Shape, Space, interleaved
from softcheck.probes.shape_predicate import describe_shapes
from softcheck.probes.sweep import merged
from softcheck.variants.coverage import code_lines, never_run
from softcheck.variants.signatures import Recorder, tracing
from softcheck.variants.source import Source, source_of

_MOST_PLANNED = 2000
_MOST_IN_A_REGIME = 48
_MOST_TRACED_ROWS = 3
"""Rows of an interpreted call whose lines are noted: Python runs the kernels there, and slower if it is traced."""


@dataclass(frozen=True, slots=True)
class _PlannedShape:
    """A shape to try. ``calls`` calls hold as many telling rows as there are, if one call holds fewer."""

    shape: Shape
    tile: int
    calls: int = 1


@dataclass(frozen=True, slots=True)
class _Limits:
    """Limits of one trial on one backend."""

    seconds: float
    most_columns: int
    most_elements: int
    rows: int
    """Telling rows for a shape whose row count is free."""
    most_batch: int
    """Elements of a call whose row count is free; there are ``least_rows`` rows in any case."""
    least_rows: int
    calls: int
    """Calls with one row each."""
    seconds_per_row: float
    """Seconds that a program of a quick kernel takes, judgement included."""
    seconds_per_element: float


_UNTRIED = "some shapes were left out, since each trial has a limit of time"


@dataclass(frozen=True, slots=True)
class _Planning:
    """Everything that a plan may depend on."""

    space: Space
    limits: _Limits
    rng: np.random.Generator
    regimes: Callable[[], list[Regime]]
    """Explores the variant."""


Plan = Callable[[_Planning], Iterator[_PlannedShape]]


def _regimes(p: _Planning) -> Iterator[_PlannedShape]:
    """In each regime its narrowest shapes, 1 to 8 tiles more than these have, and random shapes."""
    return interleaved([list(islice(_in_regime(regime, p), _MOST_IN_A_REGIME)) for regime in p.regimes()])


def _in_regime(regime: Regime, p: _Planning) -> Iterator[_PlannedShape]:
    shapes = [shape for shape in regime.shapes if p.space.fits(shape)]
    if not shapes:
        return
    rows = [shape.rows for shape in shapes]
    tile = regime.tile

    def planned(rows: int, columns: int) -> _PlannedShape:
        return _PlannedShape(Shape(rows, columns), tile or p.space.tile_below(columns))

    def widened(shape: Shape) -> _PlannedShape:
        """With as many rows as a call may hold, if the regime holds so many."""
        free = _free(shape.columns, p.limits).rows
        return planned(max(shape.rows, min(free, max(rows))), shape.columns)

    narrow = min(shape.columns for shape in shapes)
    first, last = shapes[0], max(shapes, key=lambda shape: shape.columns)
    yield widened(first)
    yield planned(*first)
    yield widened(min(shapes, key=lambda shape: shape.columns))
    tiles = p.rng.permutation(8).tolist() if tile is not None else []
    ends = [narrow, first.columns, *(narrow // (tile or 1) * (tile or 1) + (tile or 1) * (k + 1) + 1 for k in tiles)]
    some = [shapes[i] for i in p.rng.integers(0, min(len(shapes), 4 * _MOST_IN_A_REGIME), _MOST_IN_A_REGIME)]
    for end, shape in zip_longest(ends[2:], [last, *some]):
        if end is not None and end <= last.columns:
            yield planned(first.rows, end)
            yield planned(first.rows, end - 1)
        if shape is not None:
            yield planned(*shape)


def _widths(p: _Planning) -> Iterator[_PlannedShape]:
    widths = [*islice(shape_plan.around_boundaries(p.space), 40), *p.space.representatives(p.rng)]
    for columns in dict.fromkeys(widths):
        yield _PlannedShape(_free(columns, p.limits), p.space.tile_below(columns))


def _tiles(p: _Planning) -> Iterator[_PlannedShape]:
    for columns, tile in shape_plan.tiled(p.space, p.rng):
        yield _PlannedShape(_free(columns, p.limits), tile)


def _single_rows(p: _Planning) -> Iterator[_PlannedShape]:
    widths = p.space.representatives(p.rng)
    # One width with all rows, then other widths with few.
    first = min(widths, key=lambda n: abs(n - 300))
    yield _PlannedShape(Shape(1, first), p.space.tile_below(first), p.limits.calls)
    for rows in (1, 2, 3):
        for columns in p.rng.permutation(widths).tolist():
            yield _PlannedShape(Shape(rows, columns), p.space.tile_below(columns), 8)


def _rows(p: _Planning) -> Iterator[_PlannedShape]:
    return (_PlannedShape(shape, p.space.tile_below(shape.columns)) for shape in shape_plan.tall(p.space, p.rng))


def _elements(p: _Planning) -> Iterator[_PlannedShape]:
    return (
        _PlannedShape(shape, p.space.tile_below(shape.columns)) for shape in shape_plan.many_elements(p.space, p.rng)
    )


def _anywhere(p: _Planning) -> Iterator[_PlannedShape]:
    return (_PlannedShape(shape, p.space.tile_below(shape.columns)) for shape in shape_plan.anywhere(p.space, p.rng))


def _free(columns: int, limits: _Limits) -> Shape:
    return Shape(max(limits.least_rows, min(limits.rows, limits.most_batch // columns)), columns)


_PLANS: dict[str, Plan] = {
    "regimes": _regimes,
    "widths": _widths,
    "tiles": _tiles,
    "single-rows": _single_rows,
    "rows": _rows,
    "elements": _elements,
    "anywhere": _anywhere,
}

_EXPLORING = "regimes"
"""The trial that looks for regimes."""

_SHARES = {
    "regimes": 0.3,
    "widths": 0.15,
    "tiles": 0.15,
    "single-rows": 0.1,
    "rows": 0.1,
    "elements": 0.1,
    "anywhere": 0.1,
}
"""Parts of the time that a probe may take."""

_SECONDS, _SECONDS_INTERPRETED = 5.0, 8.0
_WIDEST, _WIDEST_INTERPRETED = 2**18, 2**17


class _Regimes(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(1):
            return []
        return [Trial(label, label) for label in (list(_PLANS)[:2] if setting.quick else _PLANS)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        source = source_of(subject.variant.function)
        limits = _limits(subject.setting, trial.label)
        sizes = source.sizes_for(subject.setting.fmt.itemsize)
        numbers = shape_plan.numbers_of(sizes, largest=limits.most_elements)
        space = Space(numbers, limits.most_columns, limits.most_elements)
        rng = np.random.default_rng([source.digest, subject.setting.seed])

        found: list[Regime] = []

        def regimes() -> list[Regime]:
            found.extend(regimes_of(subject.variant, source, subject.setting.dtype, space, rng))
            return found

        plan = islice(_PLANS[trial.label](_Planning(space, limits, rng, regimes)), _MOST_PLANNED)
        outcome = _Tour(subject, source, limits, rng, traces=trial.label == _EXPLORING).of(
            {target.shape: target for target in plan}.values()
        )
        if trial.label != _EXPLORING or outcome.fatal:
            return outcome
        name = getattr(inspect.unwrap(subject.variant.function), "__name__", "")
        code = code_lines(source, name, with_kernels=not subject.setting.on_gpu)
        return msgspec.structs.replace(outcome, regimes=tuple(regime.seen() for regime in found), code=code)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one finding per kind, with the shapes that show it as a predicate over rows and columns."""
        tried = {Shape(*shape) for _, outcome in done for shape in outcome.shapes}
        found = (_kind_over_shapes(done, kind, tried) for kind in FindingKind)
        untried = any(outcome.untried for _, outcome in done)
        others = [
            Shown(trial.label, violation)
            for trial, outcome in done
            for violation in outcome.violations
            if violation.kind not in outcome.failing_shapes
        ]
        return Conclusion(
            findings=(*(shown for shown in found if shown is not None), *others),
            trials=sum(outcome.skipped is None or bool(outcome.shapes) for _, outcome in done),
            skipped=(*skipped_of(done), *((_UNTRIED,) if untried else ())),
            regimes=_judged_regimes(done),
            coverage=_coverage(done),
        )


PROBE = _Regimes()


def _limits(setting: Setting, label: str) -> _Limits:
    on_gpu = setting.on_gpu
    promised = (setting.declaration.column_limit(setting.dtype), setting.widest)
    widest = min(limit for limit in (*promised, _WIDEST if on_gpu else _WIDEST_INTERPRETED) if limit is not None)
    seconds = (_SECONDS if on_gpu else _SECONDS_INTERPRETED) * _SHARES[label] / (2 if setting.quick else 1)
    return _Limits(
        seconds=seconds,
        most_columns=widest,
        most_elements=2**24 if on_gpu else 2**22,
        rows=192 if on_gpu else 24,
        most_batch=(2**19 if label == "widths" else 2**17) if on_gpu else 2**15,
        least_rows=16 if on_gpu else 6,
        calls=192 if on_gpu else 64,
        seconds_per_row=1e-7 if on_gpu else 2e-3,
        seconds_per_element=1e-8 if on_gpu else 2e-7,
    )


class _Tour:
    """Calls at one shape after the other until the time is over."""

    def __init__(
        self, subject: Subject, source: Source, limits: _Limits, rng: np.random.Generator, *, traces: bool
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

    def of(self, targets: Iterable[_PlannedShape]) -> Outcome:
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
            if self._calls.is_full or not self._subject.setting.on_gpu:
                self._settle(shapes)
            if shapes and shapes[-1] == target.shape:
                self._note(target.shape, (clock() - before) / max(1, target.calls))
        self._settle(shapes)
        return self._outcome(left_out)

    def _traced(self, x: torch.Tensor) -> Any:
        if not self._subject.setting.on_gpu and (len(x) > _MOST_TRACED_ROWS or not self._traces):
            return self._subject.variant.function(x)
        with tracing(self._recorder):
            return self._subject.variant.function(x)

    def _inputs(self, target: _PlannedShape) -> Iterator[Bits]:
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
        variant, dtype = self._subject.variant, self._subject.setting.dtype
        paths = {} if self._fatal else paths_of(variant, self._source, dtype, shapes)
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


def _kind_over_shapes(done: Sequence[tuple[Trial, Outcome]], kind: FindingKind, tried: set[Shape]) -> Shown | None:
    broken = [
        (Shape(*min(outcome.failing_shapes[kind], key=_elements_of)), trial.label, violation)
        for trial, outcome in done
        if kind in outcome.failing_shapes
        for violation in outcome.violations
        if violation.kind is kind
    ]
    if not broken:
        return None
    broken.sort(key=lambda found: found[0].elements)
    least, label, violation = broken[0]
    for _, _, other in broken[1:]:
        violation = merged(violation, other, first=False)
    failing = {Shape(*shape) for _, outcome in done for shape in outcome.failing_shapes.get(kind, ())}
    refusal = violation.refusal
    if refusal is not None and any(_is_larger(shape, least) for shape in tried - failing):
        refusal = None
    message = (
        f"{describe_shapes(tried, failing)} ({len(failing)} of {len(tried)} shapes tried); "
        f"at rows = {least.rows}, columns = {least.columns}: {violation.message}"
    )
    return Shown(label, msgspec.structs.replace(violation, message=message, refusal=refusal))


def _judged_regimes(done: Sequence[tuple[Trial, Outcome]]) -> tuple[SeenRegime, ...]:
    """Returns the regimes with the shapes that were judged in each, in any trial."""
    judged: dict[str, set[Shape]] = defaultdict(set)
    for _, outcome in done:
        for shape, path in zip(outcome.shapes, outcome.paths, strict=False):
            judged[path].add(Shape(*shape))
    regimes = []
    for regime in (regime for _, outcome in done for regime in outcome.regimes):
        shapes = [shape for path in regime.paths for shape in judged.get(path, ())]
        elements = sum(shape.elements for shape in shapes)
        regimes.append(msgspec.structs.replace(regime, shapes=len(shapes), elements=elements))
    return tuple(regimes)


def _coverage(done: Sequence[tuple[Trial, Outcome]]) -> Coverage | None:
    lines = tuple(line for _, outcome in done for line in outcome.code)
    if not lines:
        return None
    run = {place for _, outcome in done for place in outcome.lines}
    count = sum((line.file, line.line) in run for line in lines)
    return Coverage(lines=len(lines), run=count, never=tuple(never_run(lines, run)))


def _elements_of(shape: tuple[int, int]) -> int:
    return shape[0] * shape[1]


def _is_larger(shape: Shape, other: Shape) -> bool:
    return shape.rows >= other.rows and shape.columns >= other.columns
