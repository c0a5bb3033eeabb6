"""Limits of the sizes that a variant answers, derived from all its refusals together. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from oracles.formats import FORMATS
from softcheck.cases.case import GENERATED, PACKED, Case, digest
from softcheck.cases.recipe import Recipe, Uniform
from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.facts import Measure
from softcheck.run.plan import left_out
from softcheck.run.probing import ProbeResult
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """Sizes that a variant refuses for one reason in one dtype: all are larger than any size that it answers."""

    measure: Measure | None
    """The measured quantity; None for inputs without elements."""
    answered: int
    """The largest size that was answered; 0 without elements."""
    refused: int
    """The smallest size that was refused."""
    first: Refusal
    """A refusal at the smallest refused size."""
    kind: FindingKind

    @property
    def words(self) -> str:
        """The refused sizes, the reason, and the declaration to add."""
        why = f"{self.first.error} at {self.first.place}"
        if self.measure is None:
            return (
                f"refuses inputs without elements, as of {self.first.rows} rows and {self.first.columns} columns: {why}"
            )
        said = f"refuses beyond {self.answered} {self.measure} ({self.refused} is the smallest refused): {why}"
        return f"{said}; declare max_columns={self.answered}" if self.measure == "columns" else said

    def covers(self, violation: Violation) -> bool:
        """True if a violation is a refusal beyond this limit."""
        refusal = violation.refusal
        if refusal is None or refusal.kind != self.first.kind:
            return False
        if self.measure is None:
            return _is_empty(refusal)
        return not _is_empty(refusal) and _size(refusal, self.measure) >= self.refused


def size_limits(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> list[SizeLimit]:
    """Finds the limits of one variant in one dtype.

    Refusals of one kind make a limit if each is larger, in columns, rows or elements, than every answered size. Other
    refusals make no limit. If nothing was answered, there is no limit.
    """
    answered = [
        (r.measurement.rows, r.measurement.columns)
        for r in results
        if r.measurement.skipped is None and not r.measurement.unjudged_rows and 0 not in r.case.shape
    ]
    refused = violations_of(results, probed)
    found = [_limit(alike, answered) for alike in _by_reason(refused)]
    is_empty = FindingKind.EMPTY_REFUSED
    empties = {v.refusal.kind: v.refusal for v in reversed(refused) if v.kind is is_empty and v.refusal is not None}
    found += [SizeLimit(measure=None, answered=0, refused=0, first=first, kind=is_empty) for first in empties.values()]
    return [limit for limit in found if limit is not None]


def violations_of(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> list[Violation]:
    """Every broken promise of some cases and probes."""
    return [
        *(v for result in results for v in result.measurement.violations),
        *(shown.violation for probe in probed for shown in probe.conclusion.findings),
    ]


def _by_reason(violations: Sequence[Violation]) -> list[list[Refusal]]:
    """The refusals of inputs with elements, those of one reason together."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in (violation.refusal for violation in violations):
        if refusal is not None and not _is_empty(refusal):
            by_reason.setdefault(refusal.kind, []).append(refusal)
    return list(by_reason.values())


def _limit(refusals: Sequence[Refusal], answered: Sequence[tuple[int, int]]) -> SizeLimit | None:
    for at, measure in enumerate(get_args(Measure)):
        sizes = [(columns, rows, rows * columns)[at] for rows, columns in answered]
        # Of a sweep, the largest size that was answered, if the sweep is over that measure.
        sizes += [
            r.answered
            for r in refusals
            if r.answered is not None and measure == ("columns" if r.columns > r.rows else "rows")
        ]
        first = min(refusals, key=lambda r: (_size(r, measure), r.rows, r.columns))
        least = _size(first, measure)
        if sizes and max(sizes) < least:
            return SizeLimit(
                measure=measure, answered=max(sizes), refused=least, first=first, kind=FindingKind.SIZE_REFUSED
            )
    return None


def _size(of: Refusal, measure: Measure) -> int:
    return {"columns": of.columns, "rows": of.rows, "elements": of.rows * of.columns}[measure]


def _is_empty(refusal: Refusal) -> bool:
    return 0 in (refusal.rows, refusal.columns)


def around(
    session: Session,
    variant: str,
    declaration: Declaration,
    dtype: str,
    results: Sequence[CaseMeasurement],
    probed: Sequence[ProbeResult] = (),
) -> list[CaseMeasurement]:
    """Makes calls on larger and smaller inputs than those that one variant refused in one dtype, and returns their results.

    ``size_limits`` of all results tells the limits: an answer beyond a refused size makes the refusal none. A limit of columns is
    narrowed down to the widest row that is answered. A broken promise that no limit covers is a finding like any other.
    """
    tried: list[CaseMeasurement] = []
    run: set[tuple[int, int]] = set()

    def limit_of_columns(refusal: Refusal) -> SizeLimit | None:
        limits = size_limits([*results, *tried], probed)
        return next((each for each in limits if each.measure == "columns" and each.first.kind == refusal.kind), None)

    def tells(shape: tuple[int, int]) -> bool:
        """Calls an input of a shape. Returns True if it is answered or refused."""
        case = _case(shape, dtype)
        if case is None or left_out(case, declaration) is not None or shape in run:
            return False
        run.add(shape)
        found = session.run_case(case, [variant])
        tried.extend(found)
        measured = [result.measurement for result in found if result.measurement.skipped is None]
        return any(not m.unjudged_rows or any(v.refusal is not None for v in m.violations) for m in measured)

    for alike in _by_reason(violations_of(results, probed)):
        refusal = min(alike, key=lambda r: (r.columns, r.rows))
        for shape in _shapes(refusal.rows, refusal.columns):
            tells(shape)
        limit = limit_of_columns(refusal)
        while limit is not None and limit.refused - limit.answered > 1:
            if not tells((1, (limit.answered + limit.refused) // 2)):
                break
            limit = limit_of_columns(refusal)
    return tried


def _shapes(rows: int, columns: int) -> list[tuple[int, int]]:
    """Shapes that tell a limit of columns, rows or elements from a refusal of some sizes only.

    Of the wider ones there is an odd or an even one, a power of two, and a multiple of 3 and a power of two: kernels refuse what is
    no multiple of their block.
    """
    power = 1 << columns.bit_length()
    wide = (columns, columns + 1, power, 2 * power, 3 * power)
    narrow = (1, power // 4, columns - 1)
    return [*((1, n) for n in dict.fromkeys((*narrow, *wide)) if n > 0), (rows, 1), (2 * rows, 1)]


_MOST_ELEMENTS = 2**23
"""Of an input that is made here; wider than any row of the probes."""


def _case(shape: tuple[int, int], dtype: str) -> Case | None:
    if shape[0] * shape[1] > _MOST_ELEMENTS:
        return None
    fmt = FORMATS[dtype]
    recipe = Recipe(Uniform(seed=0, low=-4.0, high=4.0))
    return Case(
        id=f"{GENERATED}/{shape[0]}x{shape[1]}/{dtype}",
        dtype=dtype,
        shape=shape,
        digest=digest(recipe.bits(*shape, fmt), fmt, PACKED),
        recipe=recipe,
        provenance="a size beside one that a variant refuses",
    )
