"""Many shapes in one trial, and one finding per kind over all of them, with a predicate in place of a list."""

from collections.abc import Callable, Sequence

import msgspec

from softcheck.contract import FindingKind
from softcheck.facts import Measure, Sweep
from softcheck.probes.base import Probe, Trial, one_of
from softcheck.probes.outcome import Conclusion, Outcome, Shown
from softcheck.probes.predicate import Shape, where_of
from softcheck.probes.walk import merged

Done = Sequence[tuple[Trial, Outcome]]


def concluded(
    done: Done, of: Measure | None = None, named: str = "shapes", layout_of: Callable[[Trial], str] = lambda _: ""
) -> Conclusion:
    """Returns one finding per kind, and one for each violation that belongs to no shape.

    ``of`` is what the shapes vary in, None for both sizes; ``named`` is the word for several of them. Trials are taken together by
    ``layout_of``; a finding is of the first layout, and names trials of others.
    """
    layouts = list(dict.fromkeys(layout_of(trial) for trial, _ in done))
    groups = [(layout, [each for each in done if layout_of(each[0]) == layout]) for layout in layouts]
    alike = [
        [shown for layout, group in groups for shown in _of_kind(group, kind, of, named, layout)]
        for kind in FindingKind
    ]
    others = [
        Shown(trial.label, violation)
        for trial, outcome in done
        for violation in outcome.violations
        if violation.kind not in outcome.failing
    ]
    found = Probe.concluded(done, [*map(one_of, filter(None, alike)), *others])
    left_out = (f"some {named} were left out, since each trial has a budget of calls, elements and compilations",)
    is_cut = any(outcome.is_cut and outcome.tried for _, outcome in done)
    tried, failing = together(done)
    return msgspec.structs.replace(
        found,
        skipped=(*found.skipped, *(left_out if is_cut else ())),
        tried=tuple(sorted(tried)),
        failing={kind: tuple(sorted(shapes)) for kind, shapes in failing.items()},
    )


def together(done: Done) -> tuple[set[Shape], dict[FindingKind, set[Shape]]]:
    """Returns the shapes that trials judged, and those that broke a promise, by kind."""
    tried = {Shape(*shape) for _, outcome in done for shape in outcome.tried}
    failing: dict[FindingKind, set[Shape]] = {}
    for _, outcome in done:
        for kind, shapes in outcome.failing.items():
            failing.setdefault(kind, set()).update(Shape(*shape) for shape in shapes)
    return tried, failing


def _of_kind(done: Done, kind: FindingKind, of: Measure | None, named: str, layout: str) -> list[Shown]:
    """Returns the finding of one kind in some trials, if there is one: the smallest shape's, over all that were tried."""
    broken = [
        (min((Shape(*shape) for shape in outcome.failing[kind]), key=_by_elements), trial.label, violation)
        for trial, outcome in done
        if kind in outcome.failing
        for violation in outcome.violations
        if violation.kind is kind
    ]
    if not broken:
        return []
    broken.sort(key=lambda found: _by_elements(found[0]))
    least, label, violation = broken[0]
    for _, _, other in broken[1:]:
        violation = merged(violation, other, first=False)
    tried, failing = together(done)[0], together(done)[1][kind]
    where, swept = where_of(tried, failing, of), Sweep(failing=len(failing), tried=len(tried))
    at, refusal = f"rows = {least.rows}, columns = {least.columns}", violation.refusal
    answered = None
    if of is not None:
        sizes, wrong = ({getattr(shape, of) for shape in shapes} for shapes in (tried, failing))
        swept = Sweep.among(sizes, wrong, named)
        at = f"N = {least.columns}" if of == "columns" else at
        most = max((getattr(shape, of) for shape in tried - failing), default=0)
        answered = most if 0 < most < getattr(least, of) else None
    if refusal is not None and least.elements:
        # If a larger shape was answered, the refused one is no limit.
        is_limit = not any(s.rows >= least.rows and s.columns >= least.columns for s in tried - failing)
        refusal = msgspec.structs.replace(refusal, answered=answered) if is_limit else None
    words = where.words("N" if of == "columns" else "columns")
    found = msgspec.structs.replace(
        violation,
        message=f"{words} ({swept.words()}); at {at}: {violation.message}",
        facts=msgspec.structs.replace(violation.facts, where=where, sweep=swept),
        refusal=refusal,
    )
    return [Shown(label, found.told(layout, layout=layout) if layout else found)]


def _by_elements(shape: Shape) -> tuple[int, Shape]:
    return shape.elements, shape
