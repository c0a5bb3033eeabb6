"""Which worker runs what, and when: slow variants apart, large probes one at a time, what needs the GPU alone at the end."""

import time

import msgspec
import numpy as np
import pytest
from test_session import hostile

from softcheck.cases.importing import case_from_bits
from softcheck.judge.measurement import unmeasured
from softcheck.probes.outcome import Conclusion
from softcheck.run import stages
from softcheck.run.model import Events, Options, Run
from softcheck.run.patience import MOST_DEATHS
from softcheck.run.pool import Job
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import Ready
from softcheck.run.record import Record
from softcheck.run.session import Result, Session
from softcheck.variants.declaration import Declaration

ON_CPU = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
ON_GPU = Ready(backend="cuda", device="GPU", torch="2", triton="3", python="3.11", driver="1", memory_bytes=140 * 10**9)
SMALL_GPU = msgspec.structs.replace(ON_GPU, memory_bytes=24 * 10**9)


def case(columns):
    bits = np.zeros((2, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=f"columns-{columns}")


CASES = [case(4), case(64), case(8)]


def result(name, on):
    return Result(name, on, unmeasured(on.shape, ()), 0.1)


class Pretending:
    """A session that runs nothing: what it is asked for has a result at once."""

    def __init__(self, ready=ON_CPU):
        self.jobs, self.ready, self.closed = 4, ready, False
        self.asked, self.is_back = [], False

    def job(self, on, variants):
        self.asked.append(tuple(variants))
        return Job(on.id, lambda emit: [emit(result(name, on)) for name in variants])

    def rejoin(self):
        self.is_back = True


@pytest.fixture
def probes(monkeypatch):
    """Probes that say at once what their session is, and skip for want of memory where the name is among those given."""
    skipping, running, log = set(), [], []

    def probe_job(session, task, *, done=(), on_outcome=None):
        def work(emit):
            running.append(task.probe)
            time.sleep(0.02)
            log.append((task.variant, task.probe, session, running.count("addresses"), on_outcome is not None))
            running.remove(task.probe)
            skipped = ("too little memory",) if task.variant in skipping else ()
            skipping.discard(task.variant)
            emit(ProbeResult(task=task, labels=(), conclusion=Conclusion(skipped=skipped), abandoned=0, seconds=0.0))

        return Job(str(task), work)

    monkeypatch.setattr(stages, "probe_job", probe_job)
    return skipping, log


def run_stage(session, names=("v",), *, apart=None, kept=(), asked=(), dtypes=("float16",)):
    declarations = {name: Declaration(layouts=("contiguous",)) for name in names}
    options = Options(variants=names, dtypes=dtypes, cases=tuple(CASES), whole_corpus=False, probes=asked)
    run = Run(options=options, ready=session.ready, declarations=declarations)
    run.results.extend(kept)
    shown = []
    stages.cases_and_probes(
        session,
        run,
        Events(stage=shown.append, progress=lambda *now: shown.append(now)),
        Record(None, None),
        apart=apart or {},
        before_exclusive=lambda: shown.append("alone from now on"),
    )
    return run, shown


def test_progress_leaves_out_what_a_journal_holds():
    run, shown = run_stage(Pretending(), kept=[result("v", CASES[0])])
    assert shown == ["running cases and probes", (1, 2), (2, 2), "alone from now on"]
    assert sorted(r.case.id for r in run.results) == sorted(c.id for c in CASES)


def test_a_slow_variant_runs_in_its_own_session_and_nothing_else_does(probes):
    own, others = Pretending(), Pretending()
    run, _ = run_stage(others, ("slow", "a", "b"), apart={"slow": own}, asked=("sizes", "empties"))
    assert set(own.asked) == {("slow",)}
    assert set(others.asked) == {("a", "b")}
    assert {(name, where is own) for name, _, where, *_ in probes[1]} == {("slow", True), ("a", False), ("b", False)}
    assert (len(run.results), len(run.probed)) == (9, 6)
    assert own.is_back, "its workers serve the rest of the check"


def test_large_probes_run_beside_others_but_not_beside_each_other(probes):
    run, shown = run_stage(Pretending(ON_GPU), ("a", "b", "c"), asked=("addresses", "empties", "shifts"))
    at_once = [count for _, probe, _, count, _ in probes[1] if probe == "addresses"]
    assert at_once == [1, 1, 1]
    assert shown[-1] == "alone from now on"
    assert len(run.probed) == 9


def test_where_memory_did_not_suffice_a_large_probe_is_made_again_alone_and_only_then_journalled(probes):
    skipping, log = probes
    skipping.add("b")
    run, shown = run_stage(Pretending(ON_GPU), ("a", "b"), asked=("addresses",))
    assert [(name, journalled) for name, _, _, _, journalled in log] == [("a", False), ("b", False), ("b", True)]
    assert shown[-3:] == ["alone from now on", "running probes that need the GPU alone", (1, 1)]
    assert [(p.task.variant, p.conclusion.skipped) for p in run.probed] == [("a", ()), ("b", ())]


def test_on_a_small_gpu_large_probes_wait_until_nothing_else_runs(probes):
    _, shown = run_stage(Pretending(SMALL_GPU), ("a", "b"), asked=("addresses", "empties"))
    assert [probe for _, probe, *_ in probes[1]] == ["empties"] * 2 + ["addresses"] * 2
    assert shown.index("alone from now on") < shown.index("running probes that need the GPU alone")


def test_without_a_gpu_no_probe_needs_it(probes):
    _, shown = run_stage(Pretending(), asked=("addresses", "empties"))
    assert shown[-1] == "alone from now on"
    assert {journalled for *_, journalled in probes[1]} == {True}


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=2, seconds_per_call=60.0)
    yield opened
    opened.close()


def loaded(session, names, cases=(), *, kept=()):
    options = Options(variants=tuple(names), dtypes=("float16",), cases=tuple(cases), whole_corpus=False)
    run, record = Run(options=options, ready=session.ready), Record(None, None)
    for one in kept:
        record.results[one.variant, one.case.id] = one
    begun = []
    apart = stages.load(session, run, Events(), record, lambda name, _, is_slow: begun.append((name, is_slow)))
    return run, apart, begun


def test_variants_are_loaded_in_the_order_in_which_they_were_named_and_scouted(session):
    names = [hostile("slow"), "torch", hostile("no_such_function"), hostile("healthy")]
    cases = [case(columns) for columns in range(1, 12)]
    run, apart, begun = loaded(session, names, cases)
    assert list(run.declarations) == [names[0], names[1], names[3]]
    assert list(run.refused) == [names[2]]
    assert sorted(begun) == sorted((name, False) for name in run.declarations)
    widths = {name: sorted(r.case.shape[1] for r in run.results if r.variant == name) for name in run.declarations}
    assert len({tuple(found) for found in widths.values()}) == 1
    assert len(widths["torch"]) == MOST_DEATHS
    assert (apart, run.errors) == ({}, [])


def test_scouts_that_a_journal_holds_are_not_run_again(session):
    run, *_ = loaded(session, ["torch"], CASES, kept=[result("torch", CASES[1])])
    assert sorted((r.case.id, r.seconds == 0.1) for r in run.results) == sorted((on.id, on is CASES[1]) for on in CASES)


def test_a_variant_whose_first_call_is_slow_keeps_its_worker(session, monkeypatch):
    monkeypatch.setattr(stages, "SLOW", 0.2)
    run, apart, begun = loaded(session, [hostile("slow"), hostile("healthy")], CASES)
    (name,) = apart
    assert session.slow == {name}
    assert dict(begun) == {name: True, hostile("healthy"): False}
    assert name == hostile("slow")
    worker = apart[name].take()
    assert name in worker.served
    apart[name].give(worker)
    apart[name].rejoin()
    assert len(run.results) == 2 * len(CASES)
