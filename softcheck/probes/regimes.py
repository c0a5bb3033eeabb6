"""Adversarial rows at every size at which a kernel may change its ways, as its source and common habits suggest.

Many kernels are right on ordinary sizes and wrong in one path: for one row, from some width on, where the number of
tiles is odd, or beyond some number of elements. The shapes come from ``shape_plan``, the rows from ``cases.telling``.
Each trial has a budget of calls, programs and elements, and says whether shapes were not tried.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits
from softcheck.cases.telling import telling_batch
from softcheck.probes import shape_plan
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.outcome import Conclusion, Outcome, SeenRegime
from softcheck.probes.predicate import Shape
from softcheck.probes.regime_map import Regime, in_regimes, paths_of, regimes_of
from softcheck.probes.shape_plan import Space
from softcheck.probes.sweeps import Done, concluded
from softcheck.probes.walk import Stop, Walk
from softcheck.variants import coverage
from softcheck.variants.coverage import code_branches, code_lines
from softcheck.variants.signatures import Recorder, tracing
from softcheck.variants.source import Source, source_of

_MOST_PLANNED = 2000
_MOST_TRACED_ROWS, _MOST_TRACED_ELEMENTS = 3, 512
"""Rows or elements of an interpreted call whose lines are noted: Python runs the kernels there, and slower if it is
traced."""

_EXPLORING = "regimes"
"""The trial that looks for regimes."""
_PLANS: dict[str, tuple[Callable[[Space], Iterator[Stop]], float]] = {
    _EXPLORING: (lambda _: iter(()), 0.25),
    "widths": (shape_plan.widths, 0.15),
    "tiles": (shape_plan.tiles, 0.15),
    "single-rows": (shape_plan.single_rows, 0.2),
    "rows": (shape_plan.tall, 0.1),
    "elements": (shape_plan.many_elements, 0.15),
    "anywhere": (shape_plan.anywhere, 0.1),
}
"""Plans by trial, each with its part of the budget of a probe. The first plan is that of the regimes found."""
_OF_WIDTHS = frozenset({"widths", "tiles"})
"""Trials of many widths, in each of which few adversarial rows show one that is cut up wrongly."""
_BUDGET, _BUDGET_INTERPRETED = 5000, 2400
"""Costs of all trials together."""
_PATIENCE = 3
"""Budgets of the first shapes of all regimes, beside the usual one: a regime may begin at some hundred rows, which cost more under the
interpreter than all others."""
_WIDEST, _WIDEST_INTERPRETED = 2**18, 2**17


class _Regimes(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(1):
            return []
        return [Trial(label, label) for label in list(_PLANS)[: 2 if setting.quick else None]]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting, source = subject.setting, source_of(subject.variant.function)
        is_exploring, (plan, part) = trial.label == _EXPLORING, _PLANS[trial.label]
        space = space_of(setting, source, trial.label)
        budget = part * (_BUDGET if setting.on_gpu else _BUDGET_INTERPRETED) * setting.time_share
        budget /= 2 if setting.quick else 1
        recorder = Recorder(source.files, conditions=source.condition_lines)

        def traced(x: torch.Tensor) -> Any:
            is_small = len(x) <= _MOST_TRACED_ROWS or x.numel() <= _MOST_TRACED_ELEMENTS
            if not setting.on_gpu and not (is_exploring and is_small):
                return subject.variant.function(x)
            with tracing(recorder):
                return subject.variant.function(x)

        walk = Walk(
            subject,
            lambda point: _inputs(point, space, source, setting),
            budget,
            first=0.0 if setting.on_gpu else _PATIENCE * budget,
            beside=lambda shape: _neighbours(shape, space),
            function=traced,
        )
        found = regimes_of(subject, source, space) if is_exploring else []
        points = in_regimes(space, found) if is_exploring else plan(space)
        outcome = walk.of(point for point in islice(points, _MOST_PLANNED) if space.fits(point.shape))
        tried = [Shape(*shape) for shape in outcome.tried]
        # The probe "empties" makes calls without elements.
        paths = {} if outcome.fatal else paths_of(subject, source, [Shape(0, 3), Shape(3, 0), *tried])
        outcome = msgspec.structs.replace(
            outcome,
            paths=tuple(paths[shape].name if shape in paths else "" for shape in tried),
            lines=tuple(sorted(recorder.lines.union(*(path.lines for path in paths.values())))),
            arcs=tuple(sorted(recorder.arcs.union(*(path.arcs for path in paths.values())))),
        )
        return _covered(subject, source, outcome, found) if is_exploring and not outcome.fatal else outcome

    def conclude(self, done: Done) -> Conclusion:
        """Returns one finding per kind, with the shapes that show it as a predicate over rows and columns, and their regime."""
        found = concluded(done)
        shown = []
        for each in found.findings:
            regime = _regime_of(done, set(found.failing.get(each.violation.kind, ())))
            told = each.violation.told(f"in the regime {regime}", regime=regime) if regime else each.violation
            shown.append(msgspec.structs.replace(each, violation=told))
        return msgspec.structs.replace(
            found,
            findings=tuple(shown),
            regimes=_judged_regimes(done),
            code=tuple(line for _, outcome in done for line in outcome.code),
            branches=tuple(branch for _, outcome in done for branch in outcome.branches),
            counts_all_calls=any(outcome.counts_all_calls for _, outcome in done),
        )


PROBE = _Regimes()


def space_of(setting: Setting, source: Source, label: str) -> Space:
    """Returns the numbers and limits of the trial with this label."""
    on_gpu, of_widths = setting.on_gpu, label in _OF_WIDTHS
    widest = setting.widest_of(_WIDEST if on_gpu else _WIDEST_INTERPRETED)
    heavier = setting.operation.per_logit(widest)
    most = (2**24 if on_gpu else 2**22) // heavier
    sizes = source.sizes_for(setting.fmt.itemsize)
    numbers = shape_plan.numbers_of(sizes, largest=most)
    batch = (2**19 if label == "widths" else 2**17) if on_gpu else 2**13 if of_widths else 2**15
    return Space(
        numbers=numbers,
        own=tuple(n for n in numbers if n in sizes),
        most_columns=widest,
        most_elements=most,
        rng=np.random.default_rng([source.digest, setting.seed]),
        rows=192 if on_gpu else 11 if of_widths else 24,
        least_rows=16 if on_gpu else 4 if of_widths else 6,
        most_batch=batch // heavier,
        calls=192 if on_gpu else 64,
    )


def _inputs(point: Stop, space: Space, source: Source, setting: Setting) -> Iterator[Bits]:
    """Adversarial rows in calls of the point's shape: each row again and again in a tall one."""
    rows, columns = point.shape
    room = max(space.least_rows, space.most_batch // columns)
    batch = telling_batch(
        columns,
        point.tile or max(1, columns // 4),
        setting.fmt,
        space.rng,
        values=[n for n in source.numbers if n],
        places=[n for n in source.sizes if n <= columns],
        most=min(rows * point.calls, space.rows, room),
    )
    for first in range(0, min(len(batch), rows * point.calls), rows):
        # Copies of whole blocks: a place for each row of a tall matrix takes ten times as long.
        yield np.resize(np.roll(batch, -first, axis=0), (rows, columns))


def _neighbours(shape: Shape, space: Space) -> list[list[Shape]]:
    """Half and twice as many rows, and columns: they tell for which of these a finding holds."""
    rows, columns = shape
    lines = [
        [(n, columns) for n in (rows // 2, rows, 2 * rows)],
        [(rows, n) for n in (columns // 2, columns, 2 * columns)],
    ]
    return [[Shape(*each) for each in line if space.fits(Shape(*each))] for line in lines]


def _covered(subject: Subject, source: Source, outcome: Outcome, found: Sequence[Regime]) -> Outcome:
    """Adds the regimes, and the lines and conditions of the variant's code."""
    name = getattr(inspect.unwrap(subject.variant.function), "__name__", "")
    lines, branches = set(outcome.lines), code_branches(source, name)
    # Compiled lines can't be counted, nor those of large calls before Python 3.12. Those of a kernel that no call was
    # traced in count as run where it is launched. Lines of functions that it calls may be another's too.
    on_gpu, tried = subject.setting.on_gpu, set(outcome.paths)
    launched = {kernel for each in found if on_gpu or tried & {*each.seen.paths} for kernel in each.kernels}
    uncounted: set[tuple[str, int]] = set()
    for kernel in launched:
        body = code_lines(source, kernel)
        own = {(line.file, line.line) for line in body if line.guard == f"def {kernel}"}
        if on_gpu or not own & lines:
            uncounted |= {(line.file, line.line) for line in body}
    return msgspec.structs.replace(
        outcome,
        regimes=tuple(regime.seen for regime in found),
        code=code_lines(source, name),
        branches=tuple(branch for branch in branches if (branch.file, branch.lines[0]) not in uncounted),
        lines=tuple(sorted(lines | uncounted)),
        counts_all_calls=coverage.is_counting(),
    )


def _by_path(done: Done) -> dict[str, set[tuple[int, int]]]:
    """The shapes that were judged, by the names of their paths."""
    judged: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for _, outcome in done:
        for shape, path in zip(outcome.tried, outcome.paths, strict=False):
            judged[path].add(shape)
    return judged


def _regime_of(done: Done, failing: set[tuple[int, int]]) -> str:
    """Words for the one regime of several that holds all failing shapes; empty if there is none."""
    regimes = [regime for _, outcome in done for regime in outcome.regimes]
    paths = {path for path, shapes in _by_path(done).items() if shapes & failing}
    holding = [regime for regime in regimes if paths <= set(regime.paths)]
    if len(regimes) < 2 or not paths or len(holding) != 1:
        return ""
    return f"{holding[0].words} [{', '.join(holding[0].launches) or 'no kernel'}]"


def _judged_regimes(done: Done) -> tuple[SeenRegime, ...]:
    """Returns the regimes with the shapes that were judged in each, in any trial."""
    judged, regimes = _by_path(done), []
    for regime in (regime for _, outcome in done for regime in outcome.regimes):
        shapes = [shape for path in regime.paths for shape in judged.get(path, ())]
        rows, elements = sum(rows for rows, _ in shapes), sum(rows * columns for rows, columns in shapes)
        regimes.append(msgspec.structs.replace(regime, shapes=len(shapes), rows=rows, elements=elements))
    return tuple(regimes)
