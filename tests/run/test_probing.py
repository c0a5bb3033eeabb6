"""Probes on workers: a hostile trial costs one finding, and the trials around it are made all the same."""

from types import SimpleNamespace

import pytest
from test_session import TWO, hostile

from softcheck.contract import FindingKind, Violation
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.run.blames import Blames
from softcheck.run.patience import MOST_TIMEOUTS, Patience
from softcheck.run.pool import Lane, Pool, spread
from softcheck.run.probing import MOST_DEATHS_IN_A_PROBE, probe_job, run_probe, time_share
from softcheck.run.process import Worker
from softcheck.run.protocol import (
    Done,
    Load,
    Probed,
    ProbePlanned,
    ProbeTask,
    Refused,
    Started,
    TrialDone,
    decode_request,
)
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
        ("hangs_on_five_empty_rows", FindingKind.TIMEOUT, 1.0),
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


def test_a_trial_that_ruins_its_device_keeps_the_sizes_at_which_it_did():
    ruin = Violation(FindingKind.CRASH, "an illegal memory access; expected an output")
    ruined = Outcome(violations=(ruin,), tried=((2, 31), (2, 33)), failing={FindingKind.CRASH: ((2, 33),)}, fatal=True)
    kept = []
    run_probe(RuinedPool(ruined), task("healthy"), on_outcome=lambda _, outcome: kept.append(outcome))
    assert kept == [ruined], "the outcome with its sizes, not only the message of the crash"


class RuinedPool(Pool):
    """A pool whose workers answer a probe's only trial with one outcome, in which the device is ruined."""

    def __init__(self, outcome):
        self.outcome, self.patience, self.blames, self.seconds, self.declarations = (
            outcome,
            Patience(),
            Blames(),
            60.0,
            {},
        )
        self._shared, self._share, self.jobs = SimpleNamespace(closed=False), None, 1

    def take(self, _variant=None, *, fresh=False, check_heap=False):
        return RuinedWorker(self.outcome)

    def give(self, worker):
        """Nothing to do: no worker is used twice."""

    retire = give

    def width_limit(self, variant, dtype, columns):
        return None


class RuinedWorker(Worker):
    def __init__(self, outcome):
        self.outcome, self.loaded, self.calls, self.is_doubted = outcome, set(), [], False
        self._connection = SimpleNamespace(send_bytes=self.receive)

    def receive(self, message):
        request = decode_request(message)
        planned = ProbePlanned(("columns-31-33",))
        if isinstance(request, Load):
            self.replies = [Refused("")]
        elif request.outcomes is not None:
            self.replies = [Probed(Conclusion())]
        elif request.trial is None:
            self.replies = [planned, Done()]
        else:
            self.replies = [Started("healthy"), TrialDone(self.outcome)]

    def _receive(self, limits):
        return self.replies.pop(0)


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
    assert shown(whole) == [("5x0", FindingKind.EMPTY_REFUSED)]


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
    lane = Lane([probe_job(session, each) for each in tasks], 2)
    assert spread(session, [lane], found.append, lambda done, total: counted.append((done, total))) == []
    assert {(r.task.variant, r.task.dtype): len(shown(r)) for r in found} == {
        (t.variant, t.dtype): int("exits" in t.variant) for t in tasks
    }
    assert counted == [(n, 4) for n in range(1, 5)]


def test_timed_probes_take_part_of_their_time_among_many_variants_without_a_gpu():
    assert [time_share("interpreter", subjects) for subjects in (1, 3, 15)] == [1.0, 1.0, 0.2]
    assert time_share("cuda", 15) == 1.0
    # The line that reproduces a finding runs one probe, and must not miss it by a little time.
    assert [time_share(backend, 1, is_alone=True) for backend in ("interpreter", "cuda")] == [2.0, 2.0]


@pytest.mark.parametrize("probe", ["histories", "regimes"])
def test_sys_exit_in_a_probe_is_the_calls_error_and_ends_no_process(tmp_path, probe):
    file = tmp_path / "exiting.py"
    file.write_text("import sys\n\ndef f(x):\n    sys.exit(0)\n")
    opened = Session("interpreter", jobs=1, seconds_per_call=60.0)
    try:
        asked = ProbeTask(variant=f"{file}:f", dtype="float16", probe=probe, effort="quick", time_share=0.2)
        found = run_probe(opened, asked)
    finally:
        opened.close()
    kinds = {shown.violation.kind for shown in found.conclusion.findings}
    assert kinds <= {FindingKind.RAISED}, [shown.violation.message for shown in found.conclusion.findings]
    assert found.abandoned == 0


def test_idle_workers_make_trials_of_a_long_probe_and_the_outcomes_are_told_in_order(session):
    def outcomes(jobs):
        own, told = Session("interpreter", jobs=jobs), []
        try:
            own.give(own.take(fresh=True))
            asked = ProbeTask(variant="torch", dtype="float16", probe="sizes", effort="quick")
            result = run_probe(own, asked, on_outcome=lambda index, outcome: told.append((index, outcome)))
        finally:
            own.close()
        return result.conclusion, [index for index, _ in told], [o.violations for _, o in told]

    alone, together = outcomes(1), outcomes(2)
    assert together == alone, "the same trials, whoever makes them"
    assert alone[1] == list(range(len(alone[1])))
