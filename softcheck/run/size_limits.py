"""Which sizes a variant refuses, told from all its refusals together. Imports no torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.run.probing import ProbeResult
from softcheck.run.session import CaseMeasurement

Measure = Literal["columns", "rows", "elements"]

_MEASURES: tuple[Measure, ...] = ("columns", "rows", "elements")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """Sizes that a variant refuses for one reason, in one dtype: all that are larger than any that it answers."""

    measure: Measure | None
    """None for inputs without elements."""
    answered: int
    """The largest size that was answered; 0 without elements."""
    refused: int
    """The smallest that was not."""
    first: Refusal
    """Of that size."""
    kind: FindingKind

    @property
    def words(self) -> str:
        """What is refused, why, and what to declare."""
        why = f"{self.first.error} at {self.first.place}"
        if self.measure is None:
            return (
                f"refuses inputs without elements, as of {self.first.rows} rows and {self.first.columns} columns: {why}"
            )
        said = f"refuses beyond {self.answered} {self.measure} ({self.refused} is the smallest refused): {why}"
        return f"{said}; declare max_columns={self.answered}" if self.measure == "columns" else said

    def covers(self, violation: Violation) -> bool:
        """Whether a broken promise is this limit's."""
        refusal = violation.refusal
        if refusal is None or refusal.kind != self.first.kind:
            return False
        if self.measure is None:
            return _is_empty(refusal)
        return not _is_empty(refusal) and _size(refusal.rows, refusal.columns, self.measure) >= self.refused


def size_limits(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> list[SizeLimit]:
    """The limits of one variant in one dtype.

    Refusals of one kind are a limit where each is larger, in columns, rows or elements, than everything that was answered. Others
    are no limit, and neither are they where nothing was answered.
    """
    violations = [
        *(v for result in results for v in result.measurement.violations),
        *(shown.violation for probe in probed for shown in probe.conclusion.findings),
    ]
    by_kind: dict[tuple[tuple[str, str], bool], list[Violation]] = {}
    for violation in violations:
        if violation.refusal is not None:
            by_kind.setdefault((violation.refusal.kind, _is_empty(violation.refusal)), []).append(violation)
    answered = [
        (r.measurement.rows, r.measurement.columns)
        for r in results
        if r.measurement.skipped is None and not r.measurement.unjudged_rows and 0 not in r.case.shape
    ]
    found = (_of_empties(alike) if without else _limit(alike, answered) for (_, without), alike in by_kind.items())
    return [limit for limit in found if limit is not None]


def _of_empties(refused: Sequence[Violation]) -> SizeLimit | None:
    first = next((v.refusal for v in refused if v.kind is FindingKind.EMPTY_REFUSED), None)
    if first is None:
        return None
    return SizeLimit(measure=None, answered=0, refused=0, first=first, kind=FindingKind.EMPTY_REFUSED)


def _limit(refused: Sequence[Violation], answered: Sequence[tuple[int, int]]) -> SizeLimit | None:
    refusals = [violation.refusal for violation in refused if violation.refusal is not None]
    for measure in _MEASURES:
        sizes = [_size(rows, columns, measure) for rows, columns in answered]
        sizes += [size for refusal in refusals for size in _swept(refusal, measure)]
        first = min(refusals, key=lambda r: (_size(r.rows, r.columns, measure), r.rows, r.columns))
        least = _size(first.rows, first.columns, measure)
        if sizes and max(sizes) < least:
            return SizeLimit(
                measure=measure, answered=max(sizes), refused=least, first=first, kind=FindingKind.SIZE_REFUSED
            )
    return None


def _swept(refusal: Refusal, measure: Measure) -> Iterator[int]:
    """The largest size that a sweep saw answered, if it is of that measure: it is next below the refused one's."""
    if refusal.answered is not None:
        swept = "columns" if refusal.columns > refusal.rows else "rows"
        if measure == swept:
            yield refusal.answered


def _size(rows: int, columns: int, measure: Measure) -> int:
    return {"columns": columns, "rows": rows, "elements": rows * columns}[measure]


def _is_empty(refusal: Refusal) -> bool:
    return 0 in (refusal.rows, refusal.columns)
