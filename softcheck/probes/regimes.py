"""Adversarial rows at every size at which a kernel may change its ways, as its source and common habits suggest.

Many kernels are right on ordinary sizes and wrong in one path: for one row, from some width on, where the number of
tiles is odd, or beyond some number of elements. The shapes come from ``shape_plan``, the rows from ``cases.telling``.
Each trial has a budget of calls, programs and elements, and says whether shapes were not tried.
"""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from softcheck.contract import FindingKind
from softcheck.facts import Sweep
from softcheck.probes import shape_plan
from softcheck.probes.base import Probe, Setting, Subject, Trial, skipped_of
from softcheck.probes.outcome import Conclusion, Outcome, SeenRegime, Shown
from softcheck.probes.regime_map import Regime, regimes_of
from softcheck.probes.regime_plans import EXPLORING, PLANS, PlannedShape, Planning, limits_of
from softcheck.probes.shape_plan import Shape, Space
from softcheck.probes.shape_predicate import shapes_where
from softcheck.probes.sweep import merged, over_sizes, shapes_judged
from softcheck.probes.tour import Tour
from softcheck.variants import executed
from softcheck.variants.coverage import code_branches, code_lines
from softcheck.variants.source import source_of

_MOST_PLANNED = 2000

_UNTRIED = "some shapes were left out, since each trial has a budget of calls and elements"


class _Regimes(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(1):
            return []
        plans = list(PLANS)[:2] if setting.quick else list(PLANS)
        return [Trial(label, label) for label in plans]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        source = source_of(subject.variant.function)
        limits = limits_of(subject.setting, trial.label)
        sizes = source.sizes_for(subject.setting.fmt.itemsize)
        numbers = shape_plan.numbers_of(sizes, largest=limits.most_elements)
        space = Space(numbers, limits.most_columns, limits.most_elements, tuple(n for n in numbers if n in sizes))
        rng = np.random.default_rng([source.digest, subject.setting.seed])
        found: list[Regime] = []

        def regimes() -> list[Regime]:
            found.extend(regimes_of(subject, source, space, rng))
            return found

        plan = islice(PLANS[trial.label](Planning(space, limits, rng, regimes)), _MOST_PLANNED)
        outcome = Tour(subject, source, limits, rng, traces=trial.label == EXPLORING).of(
            target for target in _each_once(plan) if space.fits(target.shape)
        )
        if trial.label != EXPLORING or outcome.fatal:
            return outcome
        name = getattr(inspect.unwrap(subject.variant.function), "__name__", "")
        lines, branches = set(outcome.lines), code_branches(source, name)
        # Compiled lines can't be counted, nor those of large calls before Python 3.12. Those of a kernel that no call was
        # traced in count as run where it is launched. Lines of functions that it calls may be another's too.
        on_gpu, tried = subject.setting.on_gpu, set(outcome.paths)
        launched = {launch.kernel for each in found if on_gpu or each.paths & tried for launch in each.launches}
        uncounted: set[tuple[str, int]] = set()
        for kernel in launched:
            body = code_lines(source, kernel)
            own = {(line.file, line.line) for line in body if line.guard == f"def {kernel}"}
            if on_gpu or not own & lines:
                uncounted |= {(line.file, line.line) for line in body}
        lines |= uncounted
        branches = tuple(branch for branch in branches if (branch.file, branch.lines[0]) not in uncounted)
        return msgspec.structs.replace(
            outcome,
            regimes=tuple(regime.seen() for regime in found),
            code=code_lines(source, name),
            branches=branches,
            lines=tuple(sorted(lines)),
            counts_all_calls=executed.is_counting(),
        )

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one finding per kind, with the shapes that show it as a predicate over rows and columns."""
        tried = {Shape(*shape) for _, outcome in done for shape in outcome.shapes}
        found = (_kind_over_shapes(done, kind, tried) for kind in FindingKind)
        is_cut = any(outcome.is_cut for _, outcome in done)
        others = [
            Shown(trial.label, violation)
            for trial, outcome in done
            for violation in outcome.violations
            if violation.kind not in outcome.failing_shapes
        ]
        return Conclusion(
            findings=(*(shown for shown in found if shown is not None), *others),
            trials=sum(outcome.skipped is None or bool(outcome.shapes) for _, outcome in done),
            skipped=(*skipped_of(done), *((_UNTRIED,) if is_cut else ())),
            regimes=_judged_regimes(done),
            code=tuple(line for _, outcome in done for line in outcome.code),
            branches=tuple(branch for _, outcome in done for branch in outcome.branches),
            counts_all_calls=any(outcome.counts_all_calls for _, outcome in done),
            judged_shapes=shapes_judged(outcome for _, outcome in done),
        )


PROBE = _Regimes()


def _each_once(plan: Iterable[PlannedShape]) -> Iterator[PlannedShape]:
    seen = set()
    for target in plan:
        if target.shape not in seen:
            seen.add(target.shape)
            yield target


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
    swept = Sweep(failing=len(failing), tried=len(tried))
    found = over_sizes(
        violation, shapes_where(tried, failing), swept, f"rows = {least.rows}, columns = {least.columns}"
    )
    regime = _regime_of(done, failing)
    found = found.told(f"in the regime {regime}", regime=regime) if regime else found
    return Shown(label, msgspec.structs.replace(found, refusal=refusal))


def _regime_of(done: Sequence[tuple[Trial, Outcome]], failing: set[Shape]) -> str:
    """Words for the one regime of several that holds all failing shapes; empty if there is none."""
    regimes = [regime for _, outcome in done for regime in outcome.regimes]
    paths = {
        path
        for _, outcome in done
        for shape, path in zip(outcome.shapes, outcome.paths, strict=False)
        if Shape(*shape) in failing
    }
    holding = [regime for regime in regimes if paths <= set(regime.paths)]
    if len(regimes) < 2 or not paths or len(holding) != 1:
        return ""
    return f"{holding[0].words} [{', '.join(holding[0].launches) or 'no kernel'}]"


def _judged_regimes(done: Sequence[tuple[Trial, Outcome]]) -> tuple[SeenRegime, ...]:
    """Returns the regimes with the shapes that were judged in each, in any trial."""
    judged: dict[str, set[Shape]] = defaultdict(set)
    for _, outcome in done:
        for shape, path in zip(outcome.shapes, outcome.paths, strict=False):
            judged[path].add(Shape(*shape))
    regimes = []
    for regime in (regime for _, outcome in done for regime in outcome.regimes):
        shapes = [shape for path in regime.paths for shape in judged.get(path, ())]
        rows, elements = sum(shape.rows for shape in shapes), sum(shape.elements for shape in shapes)
        regimes.append(msgspec.structs.replace(regime, shapes=len(shapes), rows=rows, elements=elements))
    return tuple(regimes)


def _elements_of(shape: tuple[int, int]) -> int:
    return shape[0] * shape[1]


def _is_larger(shape: Shape, other: Shape) -> bool:
    return shape.rows >= other.rows and shape.columns >= other.columns
