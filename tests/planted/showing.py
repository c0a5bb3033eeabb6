"""Runs what shows a planted kernel's bug, in a worker, as ``softcheck report`` does."""

from collections.abc import Sequence

from planted import PROBE_PREFIX, Planted

from softcheck.cases.case import Case
from softcheck.run.probing import ProbeTask, run_probe
from softcheck.run.session import Session
from softcheck.run.size_limits import size_limits


def kinds_shown(session: Session, planted: Planted, dtype: str) -> dict[str, set[str]]:
    """Kinds of findings by what of ``shown_by`` showed them, run in its order; last, limits of sizes that all show together."""
    found: dict[str, set[str]] = {}
    results = []
    for shown in planted.shown_by:
        if shown.startswith(PROBE_PREFIX):
            probe = shown.removeprefix(PROBE_PREFIX)
            # The few trials of a quick run show most bugs.
            quick = kinds_by_probe(session, planted, dtype, probe, quick=True) if probe == "regimes" else set()
            shows = planted.expected & quick
            found[shown] = quick if shows else kinds_by_probe(session, planted, dtype, probe)
        else:
            results += session.run_case(planted.case_of(shown, dtype), [planted.spec])
            found[shown] = {str(violation.kind) for violation in results[-1].measurement.violations}
    return {**found, "all": {str(limit.kind) for limit in size_limits(results, [])}}


def kinds_by_probe(session: Session, planted: Planted, dtype: str, probe: str, *, quick: bool = False) -> set[str]:
    """Kinds that one probe finds."""
    result = run_probe(session, ProbeTask(variant=planted.spec, dtype=dtype, probe=probe, quick=quick))
    assert result is not None
    return {str(shown.violation.kind) for shown in result.conclusion.findings}


def accusations(
    session: Session, planted: Planted, cases: Sequence[Case], dtype: str, probes: Sequence[str]
) -> list[str]:
    """Every finding on these cases and, quickly, by these probes, each as one line."""
    found = []
    for case in cases:
        (result,) = session.run_case(case, [planted.spec])
        found += [f"{case.id}: {v.kind}: {v.message}" for v in result.measurement.violations]
    for probe in probes:
        probed = run_probe(
            session, ProbeTask(variant=planted.spec, dtype=dtype, probe=probe, quick=True, time_share=0.3)
        )
        assert probed is not None
        found += [
            f"{probed.case_id(shown.label)}, {dtype}: {shown.violation.kind}: {shown.violation.message}"
            for shown in probed.conclusion.findings
        ]
    return found
