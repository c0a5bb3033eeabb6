"""Runs what shows a planted kernel's bug, in a worker, as ``softcheck report`` does."""

from collections.abc import Sequence

from planted import PROBE_PREFIX, Planted

from softcheck.cases.case import Case
from softcheck.run.probing import run_probe
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import ProbePlanned, ProbeTask, RunProbe, TrialDone
from softcheck.run.session import Session
from softcheck.run.size_limits import size_limits

LONG = frozenset(
    {
        "meetings",
        "regimes",
        "volume",
        "histories",
        "gradients",
        "head_shapes",
        "layouts",
        "batches",
        "keys",
        "shared_masks",
    }
)
"""Probes whose trials take as long as they may: the first that shows a bug ends them here."""


def long_probes(planted: Planted) -> tuple[str, ...]:
    """Returns those of what shows a kernel's bug that are such probes, whichever trial is named."""
    probes = (
        shown.removeprefix(PROBE_PREFIX).partition("/")[0]
        for shown in planted.shown_by
        if shown.startswith(PROBE_PREFIX)
    )
    return tuple(probe for probe in probes if probe in LONG)


def kinds_shown(session: Session, planted: Planted, dtype: str) -> dict[str, set[str]]:
    """Kinds of findings by what of ``shown_by`` showed them, run in its order; last, limits of sizes that all show together."""
    found: dict[str, set[str]] = {}
    results = []
    for shown in planted.shown_by:
        if shown.startswith(PROBE_PREFIX):
            probe, _, trial = shown.removeprefix(PROBE_PREFIX).partition("/")
            early = _kinds_of_one_trial(session, planted, dtype, probe, trial) if probe in LONG else set()
            found[shown] = early or kinds_by_probe(session, planted, dtype, probe)
        else:
            results += session.run_case(planted.case_of(shown, dtype), [planted.spec])
            found[shown] = {str(violation.kind) for violation in results[-1].measurement.violations}
    return {**found, "all": {str(limit.kind) for limit in size_limits(results, [])}}


def _kinds_of_one_trial(session: Session, planted: Planted, dtype: str, probe: str, trial: str) -> set[str]:
    """Kinds found by a trial of a probe that finds one of those expected; empty if no trial does.

    The named trial is made first, and the first one last: that of ``regimes`` explores the kernel, which takes longer than the others.
    """
    worker = session.take()
    labels: Sequence[str] = ()
    try:
        task = ProbeTask(variant=planted.spec, probe=probe, dtype=dtype)
        for reply in worker.ask(RunProbe(task=task), session.waits):
            if isinstance(reply, ProbePlanned):
                labels = reply.labels
        assert not trial or trial in labels, f"{planted.name}: {probe} has the trials {labels}"
        in_turn = [*range(1, len(labels)), 0][: len(labels)]
        for number in sorted(in_turn, key=lambda n: labels[n] != trial):
            for reply in worker.ask(RunProbe(task=task, trial=number), session.waits):
                if isinstance(reply, TrialDone):
                    kinds = {str(violation.kind) for violation in reply.result.violations}
                    if kinds & planted.expected:
                        return kinds
    except WorkerDiedError:
        return set()
    finally:
        session.retire(worker)
    return set()


def kinds_by_probe(session: Session, planted: Planted, dtype: str, probe: str) -> set[str]:
    """Kinds that one probe finds."""
    result = run_probe(session, ProbeTask(variant=planted.spec, dtype=dtype, probe=probe))
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
            session, ProbeTask(variant=planted.spec, dtype=dtype, probe=probe, effort="quick", time_share=0.3)
        )
        assert probed is not None
        found += [
            f"{probed.case_id(shown.label)}, {dtype}: {shown.violation.kind}: {shown.violation.message}"
            for shown in probed.conclusion.findings
        ]
    return found
