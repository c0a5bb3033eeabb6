"""Writes out of bounds, and the calls that ended their process, which such writes explain."""

from collections.abc import Iterator

from softcheck.contract import FindingKind
from softcheck.explain import of_kind
from softcheck.report.evidence import Evidence, cause_of
from softcheck.report.model import Cause

_OF_THEIR_OWN = frozenset({"addresses", "invalid_targets"})
"""Probes whose writes out of bounds have a cause of their own, and happen on inputs that no other call sees."""


def of_memory(evidence: Evidence) -> Iterator[Cause]:
    """Yields the cause of writes out of bounds, and below it that of crashes, whose place says nothing where memory was damaged before."""
    writes = [
        f for f in evidence.findings if f.kind is FindingKind.OUT_OF_BOUNDS_WRITE and f.probe not in _OF_THEIR_OWN
    ]
    if not writes:
        return
    page = of_kind(FindingKind.OUT_OF_BOUNDS_WRITE, evidence.operation)
    yield cause_of(writes, page.meaning, mend=page.mend)
    crashes = [f for f in evidence.findings if f.kind is FindingKind.CRASH and f.probe not in _OF_THEIR_OWN]
    if crashes:
        yield cause_of(
            crashes,
            "calls ended their process, as the write out of bounds above makes them: it damages memory that a later step or call uses",
            mend="fix the write first, and run these again if they still end",
        )
