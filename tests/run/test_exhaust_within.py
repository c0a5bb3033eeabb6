"""Exhaustive runs inside a report: bounded by time, cut at a part without output, only where there is a GPU."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from softcheck.cases.exhaustive import domain
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError
from softcheck.judge.measurement import unmeasured
from softcheck.run import check, exhaust
from softcheck.run.exhaust import exhaust_within
from softcheck.run.record import Record
from softcheck.variants.declaration import Declaration

PAIRS = domain("float16", 2)


@dataclass
class Pretending:
    """A session that judges nothing, at a given speed of its own clock."""

    clock: list[float]
    rows_per_second: float = 1e9
    dies_at: int | None = None
    backend: str = "cuda"
    given_up: set[str] = field(default_factory=set)
    parts: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ready(self):
        return SimpleNamespace(backend=self.backend)

    def run_domain(self, variant, judged, start, count):
        self.parts.append((start, count))
        self.clock[0] += count / self.rows_per_second
        if variant == "refused":
            raise SoftcheckError("out of host memory")
        died = self.dies_at is not None and start <= self.dies_at < start + count
        violations = (Violation(FindingKind.CRASH, "ended"),) if died else ()
        return unmeasured((count, judged.columns), violations)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(exhaust.time, "monotonic", lambda: now[0])
    return now


def test_a_fast_judge_sees_everything_in_few_parts(clock):
    session = Pretending(clock)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.measurement.rows == done.domain.first == 2**32
    assert done.domain.is_complete
    assert len(session.parts) < 80
    assert [start for start, _ in session.parts][1:] == [start + count for start, count in session.parts][:-1]
    assert max(count for _, count in session.parts) == 2**26


def test_a_slow_judge_is_ended_near_its_limit_and_the_domain_says_what_was_seen(clock):
    session = Pretending(clock, rows_per_second=2e7)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert 10.0 <= clock[0] < 11.0
    assert done.domain.first == done.measurement.rows == sum(count for _, count in session.parts) < 2**32
    assert not done.domain.is_complete
    assert done.domain.total == 2**32


def test_a_part_without_output_ends_it(clock):
    session = Pretending(clock, dies_at=2**25)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.domain.first == sum(session.parts[-1])
    assert session.parts[-1][0] <= 2**25 < done.domain.first
    assert done.measurement.violations[0].kind is FindingKind.CRASH


def run_of(session, *, exhaustive=True, names=("v",)):
    options = check.Options(
        variants=names, dtypes=("float16", "bfloat16", "float32"), cases=(), whole_corpus=True, exhaustive=exhaustive
    )
    run = check.Run(options=options, ready=session.ready)
    narrow = Declaration(max_columns={"bfloat16": 1})
    run.declarations.update(dict.fromkeys(names, narrow))
    check._exhaust(session, run, check.Events(), Record(None, None))
    return run


def test_only_promised_16_bit_pairs_are_judged_and_one_failure_loses_no_other(clock):
    run = run_of(Pretending(clock), names=("refused", "v"))
    assert [(e.variant, e.domain.dtype) for e in run.exhausted] == [("v", "float16")]
    assert run.errors == ["refused, every pair of float16 patterns: out of host memory"]
    session = Pretending(clock, given_up={"v"})
    assert run_of(session).exhausted == []
    assert session.parts == []


def test_without_a_gpu_a_note_says_so_and_unasked_nothing_is_said(clock):
    session = Pretending(clock, backend="interpreter")
    run = run_of(session)
    assert (run.exhausted, session.parts) == ([], [])
    assert run.notes == [
        "not every pair of 16-bit patterns is judged: that needs a GPU; see softcheck exhaust for a part"
    ]
    assert run_of(session, exhaustive=False).notes == []
