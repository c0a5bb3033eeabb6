"""Finds the largest size that a variant takes, by calls around one that it refused. Imports no torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oracles.formats import FORMATS
from softcheck.cases.case import GENERATED, PACKED, Case, digest
from softcheck.cases.recipe import Recipe, Uniform
from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.run.plan import left_out
from softcheck.run.probing import ProbeResult
from softcheck.run.session import CaseMeasurement, Session
from softcheck.run.size_limits import SizeLimit, size_limits, violations_of
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Around:
    """The results of calls around refused sizes, and the limits that they show."""

    limits: tuple[SizeLimit, ...]
    tried: tuple[CaseMeasurement, ...]
    """Results of these calls; a broken promise among them that no limit covers is a finding like any other."""

    def limit_of(self, violation: Violation) -> SizeLimit | None:
        """The limit that a broken promise shows, or None where it is a finding."""
        return next((limit for limit in self.limits if limit.covers(violation)), None)


def around(
    session: Session,
    variant: str,
    declaration: Declaration,
    dtype: str,
    results: Sequence[CaseMeasurement],
    probed: Sequence[ProbeResult] = (),
) -> Around:
    """The limits that results of one variant in one dtype show together with calls on larger and smaller inputs.

    These are made only where a size was refused. One that is answered beyond it makes the refusal no limit. A limit of columns is
    narrowed down to the widest row that is answered.
    """
    tried: list[CaseMeasurement] = []
    run: set[tuple[int, int]] = set()

    def limits() -> list[SizeLimit]:
        return size_limits([*results, *tried], probed)

    def answers(shape: tuple[int, int]) -> bool | None:
        """Returns True if a shape is answered, False if it is refused, and None otherwise."""
        case = _case(shape, dtype)
        if case is None or left_out(case, declaration) is not None or shape in run:
            return None
        run.add(shape)
        found = session.run_case(case, [variant])
        tried.extend(found)
        if not found or found[0].measurement.skipped is not None:
            return None
        broken = found[0].measurement.violations
        return (
            False
            if any(v.refusal is not None for v in broken)
            else None
            if found[0].measurement.unjudged_rows
            else True
        )

    for refusal in _smallest(results, probed):
        for shape in _shapes(refusal.rows, refusal.columns):
            answers(shape)
        limit = _of_columns(limits(), refusal)
        while limit is not None and limit.refused - limit.answered > 1:
            if answers((1, (limit.answered + limit.refused) // 2)) is None:
                break
            limit = _of_columns(limits(), refusal)
    return Around(tuple(limits()), tuple(tried))


def _smallest(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> Iterator[Refusal]:
    """The smallest refusal of each reason on an input with elements."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for violation in violations_of(results, probed):
        refusal = violation.refusal
        if refusal is not None and violation.kind is not FindingKind.EMPTY_REFUSED:
            by_reason.setdefault(refusal.kind, []).append(refusal)
    for alike in by_reason.values():
        yield min(alike, key=lambda r: (r.columns, r.rows))


def _shapes(rows: int, columns: int) -> list[tuple[int, int]]:
    """Shapes that tell a limit of columns, rows or elements from a refusal of some sizes only.

    Of the wider ones there is an odd or an even one, a power of two, and a multiple of 3 and a power of two: kernels refuse what is
    no multiple of their block.
    """
    power = 1 << columns.bit_length()
    wide = (columns, columns + 1, power, 2 * power, 3 * power)
    narrow = (1, power // 4, columns - 1)
    return [*((1, n) for n in dict.fromkeys((*narrow, *wide)) if n > 0), (rows, 1), (2 * rows, 1)]


def _of_columns(limits: Sequence[SizeLimit], refusal: Refusal) -> SizeLimit | None:
    return next((limit for limit in limits if limit.measure == "columns" and limit.first.kind == refusal.kind), None)


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
