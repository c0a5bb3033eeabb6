"""Order of work: slow variants keep to their share of the workers, large probes run at the end, one at a time."""

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from test_session import hostile

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.judge.measurement import unmeasured
from softcheck.probes.outcome import Conclusion, Outcome, Shown
from softcheck.run import session as session_
from softcheck.run import stages
from softcheck.run.model import Events, Run, RunOptions
from softcheck.run.patience import MOST_DEATHS, Patience
from softcheck.run.pool import Job
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask, Ready
from softcheck.run.record import Record
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration, KnownDefect

SLOW_TO_IMPORT = f"{Path(__file__).parents[1] / 'kernels' / 'slow_to_import.py'}:softmax"
ON_CPU = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
ON_GPU = Ready(backend="cuda", device="GPU", torch="2", triton="3", python="3.11", driver="1", memory_bytes=140 * 10**9)


ALONE = "running probes that need the GPU alone"


def case(columns):
    bits = np.zeros((2, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=f"columns-{columns}")


CASES = [case(4), case(64), case(8)]


def result(name, on):
    return CaseMeasurement(name, on, unmeasured(on.shape, ()), 0.1)


class Pretending:
    """A session that runs nothing: what it is asked for has a result at once."""

    def __init__(self, ready=ON_CPU):
        self.jobs, self.places, self.ready, self.closed = 4, 1, ready, False
        self.patience, self.asked, self.slow = Patience(), [], set()

    def job(self, on, variants):
        self.asked.append(tuple(variants))
        return Job(on.id, lambda emit: [emit(result(name, on)) for name in variants])

    def may_begin(self, running):
        return True

    def on_one_device(self):
        return contextlib.nullcontext(self)

    def retire_idle(self):
        """There is no worker."""


@dataclass
class Probes:
    """Probes of two trials that are made at once; the second is skipped the first time for variants in ``skipping``."""

    skipping: set = field(default_factory=set)
    log: list = field(default_factory=list)
    journal: list = field(default_factory=list)
    running: list = field(default_factory=list)
    abandoned: int = 0

    def job(self, session, task, *, done=(), on_outcome):
        def work(emit):
            self.running.append(task.probe)
            time.sleep(0.02)
            self.log.append((task.variant, task.probe, session, self.running.count("addresses"), len(done)))
            self.running.remove(task.probe)
            lacks_memory = task.variant in self.skipping
            self.skipping.discard(task.variant)
            outcomes = [Outcome(tried=(len(self.log),)), Outcome(skipped="no room" if lacks_memory else None)]
            for index in range(len(done), 2):
                on_outcome(index, outcomes[index])
            said = Conclusion(skipped=("no room",) if lacks_memory else (), cut=int(lacks_memory))
            emit(ProbeResult(task=task, labels=(), conclusion=said, abandoned=self.abandoned, seconds=0.0))

        return Job(str(task), work)


@pytest.fixture
def probes(monkeypatch):
    found = Probes()
    monkeypatch.setattr(stages, "probe_job", found.job)

    def add(_record, kept):
        if kept.outcome is not None:
            task, index, outcome = kept.outcome
            found.journal.append((task.variant, index, outcome.tried))

    monkeypatch.setattr(Record, "add", add)
    return found


def run_stage(session, names=("v",), *, kept=(), asked=(), dtypes=("float16",)):
    declarations = {name: Declaration(layouts=("contiguous",)) for name in names}
    options = RunOptions(variants=names, dtypes=dtypes, cases=tuple(CASES), whole_corpus=False, probes=asked)
    run = Run(options=options, ready=session.ready, declarations=declarations)
    run.results.extend(kept)
    shown = []
    stages.cases_and_probes(
        session,
        run,
        Events(stage=shown.append, progress=lambda *now: shown.append(now)),
        Record(None, None),
    )
    return run, shown


def test_progress_leaves_out_what_a_journal_holds():
    run, shown = run_stage(Pretending(), kept=[result("v", CASES[0])])
    assert shown == ["running cases and probes", (1, 2), (2, 2)]
    assert sorted(r.case.id for r in run.results) == sorted(c.id for c in CASES)


def test_a_slow_variant_has_jobs_of_its_own(probes):
    session = Pretending()
    session.slow = {"slow"}
    run, _ = run_stage(session, ("slow", "a", "b"), asked=("sizes", "empties"))
    assert set(session.asked) == {("slow",), ("a", "b")}
    assert (len(run.results), len(run.probed)) == (9, 6)


@pytest.mark.parametrize("ready", [ON_GPU, ON_CPU], ids=["gpu", "cpu"])
def test_two_heavy_probes_at_most_run_at_once_on_a_gpu(probes, ready, monkeypatch):
    beside = []
    monkeypatch.setattr(time, "sleep", lambda _: beside.append(probes.running.count("volume")) or Event().wait(0.05))
    run, _ = run_stage(Pretending(ready), ("a", "b", "c", "d", "e"), asked=("empties", "volume"))
    assert len(run.probed) == 10
    assert max(beside) <= 2 if ready is ON_GPU else max(beside) > 2


def test_large_probes_wait_until_nothing_else_runs(probes):
    _, shown = run_stage(Pretending(ON_GPU), ("a", "b"), asked=("addresses", "empties"))
    assert [probe for _, probe, *_ in probes.log] == ["empties"] * 2 + ["addresses"] * 2
    assert ALONE in shown


def test_without_a_gpu_no_probe_needs_it(probes):
    _, shown = run_stage(Pretending(), asked=("addresses", "empties"))
    assert ALONE not in shown
    assert len(probes.journal) == 4


def test_where_only_large_probes_are_asked_for_no_other_stage_is_named(probes, monkeypatch):
    monkeypatch.setattr("test_stages.CASES", [])
    _, shown = run_stage(Pretending(ON_GPU), ("a",), asked=("addresses",))
    assert shown == [ALONE, (1, 1)]


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=2, seconds_per_call=60.0)
    yield opened
    opened.close()


def loaded(session, names, cases=(), *, kept=(), events=None):
    options = RunOptions(variants=tuple(names), dtypes=("float16",), cases=tuple(cases), whole_corpus=False)
    run, record = Run(options=options, ready=session.ready), Record(None, None)
    for one in kept:
        record.results[one.variant, one.case.id] = one
    stages.load(session, run, events or Events(), record)
    return run, session.slow


def test_variants_are_loaded_in_the_order_in_which_they_were_named_and_scouted(session):
    names = [hostile("slow"), "torch", hostile("no_such_function"), hostile("healthy")]
    cases = [case(columns) for columns in range(1, 12)]
    run, slow = loaded(session, names, cases)
    assert list(run.declarations) == [names[0], names[1], names[3]]
    assert list(run.refused) == [names[2]]
    assert slow == set()
    widths = {name: sorted(r.case.shape[1] for r in run.results if r.variant == name) for name in run.declarations}
    assert len({tuple(found) for found in widths.values()}) == 1
    assert len(widths["torch"]) == MOST_DEATHS
    assert run.errors == []


def test_scouts_that_a_journal_holds_are_not_run_again(session):
    run, *_ = loaded(session, ["torch"], CASES, kept=[result("torch", CASES[1])])
    assert sorted((r.case.id, r.seconds == 0.1) for r in run.results) == sorted((on.id, on is CASES[1]) for on in CASES)


def test_a_variant_whose_first_call_is_slow_is_known_and_stays_on_its_worker(session, monkeypatch):
    monkeypatch.setattr(session_, "SLOW", 0.2)
    run, slow = loaded(session, [hostile("slow"), hostile("healthy")], CASES)
    assert slow == {hostile("slow")}
    assert len(run.results) == 2 * len(CASES)
    worker = session.take(hostile("slow"))
    assert hostile("slow") in worker.served
    session.give(worker)


def test_one_that_hangs_keeps_the_others_waiting_for_one_call_only(monkeypatch):
    opened = Session("interpreter", jobs=1, seconds_per_call=1.0)
    try:
        run, *_ = loaded(opened, [hostile("hangs")], [case(3), case(5), case(4)])
    finally:
        opened.close()
    kinds = {r.case.shape[1]: {v.kind for v in r.measurement.violations} for r in run.results}
    assert kinds == {3: {FindingKind.TIMEOUT}}


def test_one_whose_first_call_hangs_is_told_and_given_up_at_once(tmp_path):
    file = tmp_path / "endless.py"
    file.write_text("def f(x):\n    while True:\n        pass\n")
    told = []
    opened = Session("interpreter", jobs=1, seconds_per_call=0.5)
    begun = time.monotonic()
    try:
        run, *_ = loaded(opened, [f"{file}:f"], CASES, events=Events(found=told.append))
    finally:
        opened.close()
    assert time.monotonic() - begun < 20, "3.5 s, twice as long on a busy machine"
    (first,) = told
    assert (first.kind, first.made_by) == (FindingKind.TIMEOUT, CASES[0])
    assert run.results == [], "no case waits once more"
    assert list(run.declarations) == [f"{file}:f"], "it is a variant with a finding, and no refused one"
    over = opened.patience.over(f"{file}:f", "float16")
    assert over.why.startswith("the first calls, on small float16 inputs: no answer within ")


def test_a_variant_whose_worker_another_one_ends_while_it_is_loaded_is_loaded_again_alone():
    """The first leaves a process behind that ends the worker in which the second is then imported."""
    opened = Session("interpreter", jobs=1)
    try:
        run, *_ = loaded(opened, [hostile("ends_the_process_a_second_later"), SLOW_TO_IMPORT])
    finally:
        opened.close()
    assert run.refused == {}


def broken(on, *violations):
    return CaseMeasurement("v", on, unmeasured(on.shape, violations), 0.1)


@pytest.fixture
def standings():
    declared = Declaration(known_defects=(KnownDefect(kinds=(FindingKind.INF_MISMATCH,), reason="known"),))
    options = RunOptions(variants=("v",), dtypes=("float16",), cases=tuple(CASES), whole_corpus=False)
    run = Run(options=options, ready=ON_CPU, declarations={"v": declared})
    told = []

    def opened(*before):
        run.results.extend(before)
        return stages.Standings(run, Events(found=lambda found: told.append((found.kind, found.where, found.made_by))))

    return opened, told


def test_the_first_finding_of_a_kind_is_told_once_and_a_declared_one_or_a_refusal_never(standings):
    opened, told = standings
    sums, order = (Violation(kind, "no") for kind in (FindingKind.SUM_VIOLATION, FindingKind.ORDER_VIOLATION))
    known = Violation(FindingKind.INF_MISMATCH, "declared")
    refusal = Refusal(rows=2, columns=64, error="ValueError: no", place="v.py:1")
    refused = Violation(FindingKind.RAISED, "no", refusal=refusal)
    shown = opened()
    shown.add_result(broken(CASES[0]))
    shown.add_result(broken(CASES[1], known, refused, sums))
    shown.add_result(broken(CASES[2], sums))
    task = ProbeTask(variant="v", dtype="float16", probe="sizes")
    conclusion = Conclusion(findings=(Shown("a", sums), Shown("b", order), Shown("c", order)))
    shown.add_probed(ProbeResult(task=task, labels=("a", "b", "c"), conclusion=conclusion, abandoned=0, seconds=0.0))
    assert told == [
        (FindingKind.SUM_VIOLATION, CASES[1].id, CASES[1]),
        (FindingKind.ORDER_VIOLATION, "probe/sizes/b", task),
    ]


def test_what_was_found_before_is_not_told_again(standings):
    opened, told = standings
    sums = Violation(FindingKind.SUM_VIOLATION, "no")
    opened(broken(CASES[0], sums)).add_result(broken(CASES[1], sums))
    assert told == []
