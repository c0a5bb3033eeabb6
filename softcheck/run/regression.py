"""Conversion of a failing input into a saved regression: confirms that it fails, shrinks it, names it."""

from dataclasses import dataclass

import msgspec

from softcheck.cases.case import Case
from softcheck.cases.compact import compacted
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.run.session import Session
from softcheck.run.shrink import shrink

FAMILY = "regression"


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A failing case, shrunk, with the promise that it breaks and its original shape."""

    case: Case
    violation: Violation
    was: tuple[int, int]


def shrink_failure(session: Session, variant: str, case: Case, kind: FindingKind | None) -> Shrunk:
    """Returns the smallest input found on which ``variant`` breaks the same promise as on ``case``.

    ``kind`` is the promise; None takes the first broken one. Raises UsageError if nothing fails.
    """
    declared = session.load(variant)
    if isinstance(declared, str):
        raise UsageError(f"{variant}: {declared}")

    def violations(candidate: Case) -> tuple[Violation, ...]:
        (result,) = session.run_case(candidate, [variant], whole=True)
        if result.measurement.skipped is not None:
            raise UsageError(f"{variant}: {result.measurement.skipped}")
        return result.measurement.violations

    def broken(candidate: Case, wanted: FindingKind | None) -> Violation | None:
        return next((v for v in violations(candidate) if wanted is None or v.kind == wanted), None)

    first = broken(case, kind)
    if first is None:
        expected = "any promise" if kind is None else kind.value
        raise UsageError(
            f"{variant} does not break {expected} on this input, so it is no regression of it; leave --variant out to "
            "save the input as it is"
        )
    smallest = shrink(case, lambda candidate: broken(candidate, first.kind) is not None, row=first.row)
    last = broken(smallest, first.kind)
    return Shrunk(compacted(smallest, case), first if last is None else last, case.shape)


def named(case: Case, name: str | None, provenance: str, tags: tuple[str, ...]) -> Case:
    """The case as a regression; the name defaults to the digest of its input."""
    return msgspec.structs.replace(
        case, id=f"{FAMILY}/{case.digest if name is None else name}/{case.dtype}", provenance=provenance, tags=tags
    )
