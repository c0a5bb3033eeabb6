"""Probes on workers: a hostile trial costs one finding, and the trials around it are made all the same."""

from types import SimpleNamespace

import pytest
from test_session import TWO, hostile

from softcheck.contract import FindingKind, Violation
from softcheck.run import probing
from softcheck.run.patience import MOST_TIMEOUTS
from softcheck.run.probing import MOST_DEATHS_IN_A_PROBE, ProbeTask, run_probe, run_probes
from softcheck.run.session import Session

ALL = 10
"""Trials of the probe ``empties``."""


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=2, seconds_per_call=60.0)
    yield opened
    opened.close()


def task(name, dtype="float16"):
    return ProbeTask(variant=hostile(name), dtype=dtype, probe="empties")


def shown(result):
    return [(s.label, s.violation.kind) for s in result.conclusion.findings]


def test_healthy_variant_passes_every_trial(session):
    result = run_probe(session, task("healthy"))
    assert (shown(result), result.conclusion.trials, len(result.labels)) == ([], ALL, ALL)


@pytest.mark.parametrize(
    ("name", "kind", "seconds"),
    [
        ("exits_on_five_empty_rows", FindingKind.CRASH, 60.0),
        # Long enough for a worker's first trial on a busy machine, which imports Triton.
        ("hangs_on_five_empty_rows", FindingKind.TIMEOUT, 15.0),
    ],
)
def test_trial_that_ends_its_worker_costs_one_finding_and_the_others_are_made(name, kind, seconds):
    session = Session("interpreter", jobs=1, seconds_per_call=seconds)
    try:
        result = run_probe(session, task(name))
    finally:
        session.close()
    assert shown(result) == [("5x0", kind)]
    assert (result.conclusion.trials, result.abandoned, result.conclusion.skipped) == (ALL, 0, ())
    assert result.case_id("5x0") == "probe/empties/5x0"


def test_variant_that_ends_every_worker_is_given_up_and_says_so(session):
    result = run_probe(session, task("exits_on_empty"))
    assert shown(result) == [("0x5", FindingKind.CRASH)]
    assert result.conclusion.trials == MOST_DEATHS_IN_A_PROBE
    assert result.abandoned == ALL - MOST_DEATHS_IN_A_PROBE
    assert result.conclusion.skipped == (f"given up: {MOST_DEATHS_IN_A_PROBE} trials ended their process",)


def test_variant_that_shared_a_process_with_a_culprit_is_not_blamed(session):
    alone = Session("interpreter", jobs=1)
    try:
        alone.run_case(TWO, [hostile("ends_the_process_later")])
        assert shown(run_probe(alone, task("slow"))) == []
    finally:
        alone.close()


def test_outcomes_that_are_there_already_are_not_made_again(session):
    outcomes = []
    whole = run_probe(session, task("raises_on_no_columns"), on_outcome=lambda _, outcome: outcomes.append(outcome))
    later = []
    resumed = run_probe(
        session,
        task("raises_on_no_columns"),
        done=outcomes[:4],
        on_outcome=lambda index, outcome: later.append((index, outcome)),
    )
    assert resumed.conclusion == whole.conclusion
    assert [index for index, _ in later] == list(range(4, ALL))
    assert [outcome for _, outcome in later] == outcomes[4:]
    assert shown(whole) == [("5x0", FindingKind.RAISED)]


def test_variant_that_was_given_up_is_not_probed():
    opened = Session("interpreter", jobs=1)
    try:
        timed_out = (Violation(FindingKind.TIMEOUT, "slow"),)
        for _ in range(MOST_TIMEOUTS):
            opened.patience.count(hostile("healthy"), "float16", timed_out)
        assert run_probe(opened, task("healthy")) is None
    finally:
        opened.close()


def test_pool_loses_no_task_to_a_hostile_one(session):
    tasks = [task(name, dtype) for name in ("healthy", "exits_on_five_empty_rows") for dtype in ("float16", "float32")]
    found, counted = [], []
    assert run_probes(session, tasks, found.append, lambda done, total: counted.append((done, total))) == []
    assert {(r.task.variant, r.task.dtype): len(shown(r)) for r in found} == {
        (t.variant, t.dtype): int("exits" in t.variant) for t in tasks
    }
    assert counted == [(n, 4) for n in range(1, 5)]


@pytest.mark.parametrize(
    ("backend", "expected"),
    [("cuda", [(["a", "c"], 6), (["b"], 1)]), ("interpreter", [(["a", "b", "c"], 6), ([], 1)])],
)
def test_exclusive_probes_run_one_at_a_time_on_a_gpu(monkeypatch, backend, expected):
    ran = []

    def spread(_pool, jobs, _deliver, _progress, *, threads):
        ran.append(([job.name.split()[1] for job in jobs], threads))
        return []

    monkeypatch.setattr(probing, "spread", spread)
    monkeypatch.setattr(probing, "EXCLUSIVE", frozenset({"b"}))
    pool = SimpleNamespace(ready=SimpleNamespace(backend=backend), jobs=6)
    run_probes(pool, [ProbeTask(variant="v", dtype="float16", probe=p) for p in "abc"], ran.append, print)
    assert ran == expected


def test_what_else_uses_a_gpu_is_waited_for_before_exclusive_probes(monkeypatch):
    order = []
    monkeypatch.setattr(
        probing, "spread", lambda _pool, jobs, *_, **__: order.append([j.name.split()[1] for j in jobs]) or []
    )
    monkeypatch.setattr(probing, "EXCLUSIVE", frozenset({"b"}))
    pool = SimpleNamespace(ready=SimpleNamespace(backend="cuda"), jobs=6)
    tasks = [ProbeTask(variant="v", dtype="float16", probe=p) for p in "abc"]
    assert run_probes(pool, tasks, print, print, before_exclusive=lambda: order.append("waited")) == []
    assert order == [["a", "c"], "waited", ["b"]]
