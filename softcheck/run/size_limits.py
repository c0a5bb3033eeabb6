"""Limits of the sizes that a variant answers, derived from all its refusals together. Imports no torch."""

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
        return not _is_empty(refusal) and _size(refusal.rows, refusal.columns, self.measure) >= self.refused


def size_limits(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> list[SizeLimit]:
    """Finds the limits of one variant in one dtype.

    Refusals of one kind make a limit if each is larger, in columns, rows or elements, than every answered size. Other
    refusals make no limit. If nothing was answered, there is no limit.
    """
    by_kind: dict[tuple[tuple[str, str], bool], list[Violation]] = {}
    for violation in violations_of(results, probed):
        if violation.refusal is not None:
            by_kind.setdefault((violation.refusal.kind, _is_empty(violation.refusal)), []).append(violation)
    answered = [
        (r.measurement.rows, r.measurement.columns)
        for r in results
        if r.measurement.skipped is None and not r.measurement.unjudged_rows and 0 not in r.case.shape
    ]
    found = (_of_empties(alike) if without else _limit(alike, answered) for (_, without), alike in by_kind.items())
    return [limit for limit in found if limit is not None]


def violations_of(results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]) -> list[Violation]:
    """Every broken promise of some cases and probes."""
    return [
        *(v for result in results for v in result.measurement.violations),
        *(shown.violation for probe in probed for shown in probe.conclusion.findings),
    ]


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
    """The largest size that a sweep saw answered, next below the refused one, if the sweep is over that measure."""
    if refusal.answered is not None:
        swept = "columns" if refusal.columns > refusal.rows else "rows"
        if measure == swept:
            yield refusal.answered


def _size(rows: int, columns: int, measure: Measure) -> int:
    return {"columns": columns, "rows": rows, "elements": rows * columns}[measure]


def _is_empty(refusal: Refusal) -> bool:
    return 0 in (refusal.rows, refusal.columns)
