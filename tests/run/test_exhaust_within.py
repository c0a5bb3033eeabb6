"""Exhaustive runs inside a report: bounded by time, cut at a part without output, only where there is a GPU."""

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from softcheck.cases.exhaustive import domain
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.report.build import build
from softcheck.run import check, exhaust, stages
from softcheck.run.exhaust import Ended, exhaust_within
from softcheck.run.patience import MOST_DEATHS, Patience
from softcheck.run.protocol import Ready
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
    patience: Patience = field(default_factory=Patience)
    parts: list[tuple[int, int]] = field(default_factory=list)
    room: int = 2**40
    closed: bool = False
    refuses_at: int | None = None
    memory_bytes: int | None = None
    room_for: int = 2**40
    """Rows for which the device has room."""

    @property
    def ready(self):
        seen = {"backend": self.backend, "device": "GPU", "torch": "2", "triton": "3", "python": "3.11", "driver": None}
        return Ready(**seen, memory_bytes=self.memory_bytes)

    def run_domain(self, variant, judged, start, count):
        self.parts.append((start, count))
        self.clock[0] += count / self.rows_per_second
        if variant == "refused":
            raise SoftcheckError("out of host memory")
        if self.refuses_at is not None and start + count > self.refuses_at:
            raise SoftcheckError("no memory left to judge")
        if variant == "broken":
            raise AssertionError("no such thing")
        if count > self.room_for:
            raise TooLittleMemoryError(f"the device has no memory left for {count} rows")
        if count > self.room:
            return unmeasured((count, judged.columns), (Violation(FindingKind.OUT_OF_MEMORY, "no room"),))
        died = self.dies_at is not None and start <= self.dies_at < start + count
        violations = (Violation(FindingKind.CRASH, "ended"),) if died else ()
        return unmeasured((count, judged.columns), violations)

    places = 1

    def at(self, _place):
        return self

    jobs = 1
    slow = frozenset()

    def may_begin(self, _running):
        return True


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
    assert 10.0 <= clock[0] < 12.0
    assert done.domain.first == done.measurement.rows == sum(count for _, count in session.parts) < 2**32
    assert not done.domain.is_complete
    assert done.domain.total == 2**32


def test_a_part_without_output_ends_it(clock):
    session = Pretending(clock, dies_at=2**25)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.domain.first == sum(session.parts[-1])
    assert session.parts[-1][0] <= 2**25 < done.domain.first
    assert done.measurement.violations[0].kind is FindingKind.CRASH


@pytest.mark.parametrize("room", [2**25, 2**20])
def test_a_part_that_does_not_fit_is_made_smaller(clock, room):
    session = Pretending(clock, rows_per_second=4e9, room=room)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.domain.is_complete
    assert done.measurement.rows == 2**32
    assert done.measurement.violations == ()


def test_parts_are_halved_until_the_device_has_room_for_their_rows(clock):
    session = Pretending(clock, rows_per_second=4e9, room_for=2**23 + 5)
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.domain.is_complete
    assert max(count for start, count in session.parts if start > 2**27) == 2**23
    with pytest.raises(TooLittleMemoryError, match="no memory left for 65536 rows"):
        exhaust_within(Pretending(clock, room_for=0), "v", Declaration(), PAIRS, 10.0)


def test_on_a_gpu_with_much_memory_parts_have_more_rows(clock):
    session = Pretending(clock, rows_per_second=4e9, memory_bytes=80 * 10**9)
    exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert max(count for _, count in session.parts) == 2**28


def test_a_variant_that_never_fits_is_out_of_memory(clock):
    done = exhaust_within(Pretending(clock, room=0), "v", Declaration(), PAIRS, 10.0)
    assert [v.kind for v in done.measurement.violations] == [FindingKind.OUT_OF_MEMORY]


def judging_most(session):
    """The same session, whose parts are judged with an answer."""
    pretended = session.run_domain

    def run_domain(variant, judged, start, count):
        found = pretended(variant, judged, start, count)
        return replace(
            found, elements=2 * count, unjudged_rows=0, max_ulp=Extreme(0.4, start, 0, "0000 0000", "3800 3800")
        )

    session.run_domain = run_domain
    return session


def test_what_was_judged_before_a_part_that_cannot_be_run_is_kept_and_is_no_whole(clock):
    session = judging_most(Pretending(clock, refuses_at=2**32))
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    assert done.ended is None, "2^32 pairs are all there are"
    session = judging_most(Pretending(clock, refuses_at=2**32 - 1))
    done = exhaust_within(session, "v", Declaration(), PAIRS, 10.0)
    judged = session.parts[:-1]
    assert done.measurement.rows == done.domain.first == sum(count for _, count in judged) == session.parts[-1][0]
    assert done.measurement.max_ulp.value == 0.4
    assert done.ended == Ended(len(judged), "no memory left to judge")
    assert not done.domain.is_complete


def test_where_the_first_part_cannot_be_run_there_is_nothing_to_keep(clock):
    with pytest.raises(SoftcheckError, match="no memory left to judge"):
        exhaust_within(Pretending(clock, refuses_at=0), "v", Declaration(), PAIRS, 10.0)


def test_rows_without_an_output_are_in_no_class(clock):
    (behind,) = build(run_of(Pretending(clock, dies_at=2**24)), command=["softcheck", "report"]).exhaustive
    assert behind.rows == behind.unjudged_rows > 2**24
    assert (behind.ordinary_rows, behind.nan_rows, behind.fully_masked_rows) == (0, 0, 0)
    (behind,) = build(run_of(judging_most(Pretending(clock))), command=["softcheck", "report"]).exhaustive
    assert (behind.ordinary_rows, behind.unjudged_rows) == (2**28, 0)


def test_a_report_shows_what_was_judged_as_a_part_and_names_what_could_not_be(clock):
    session = judging_most(Pretending(clock, refuses_at=2**24))
    run = run_of(session)
    assert run.errors == [
        "v, one in 16 rows of 2 float16 patterns: ended after 2 parts, 12,582,912 of 268,435,456 rows: no memory left to judge"
    ]
    (behind,) = build(run, command=["softcheck", "report"]).exhaustive
    assert (behind.ulp_is, behind.max_ulp, behind.rows, behind.is_complete) == ("at least", 0.4, 12_582_912, False)
    assert behind.domain == (
        "one in 16 rows of 2 float16 patterns, the first 12,582,912 of 268,435,456, ended after 2 parts"
    )


@pytest.mark.parametrize(("refuses_at", "kept"), [(2**24, 0), (None, 1)])
def test_a_resumed_run_tries_again_what_ended_early(clock, refuses_at, kept):
    added = []
    record = Record(None, None)
    record.add = lambda kept: added.append(kept.exhausted)
    run_of(Pretending(clock, refuses_at=refuses_at), record=record)
    assert len(added) == kept


def run_of(session, *, exhaustive=True, names=("v",), record=None):
    options = check.RunOptions(
        variants=names, dtypes=("float16", "bfloat16", "float32"), cases=(), whole_corpus=True, exhaustive=exhaustive
    )
    run = check.Run(options=options, ready=session.ready)
    narrow = Declaration(max_columns={"bfloat16": 1})
    run.declarations.update(dict.fromkeys(names, narrow))
    check._note_that_pairs_need_a_gpu(run)
    stages.cases_and_probes(session, run, check.Events(), record or Record(None, None))
    return run


def test_only_promised_16_bit_pairs_are_judged_and_one_failure_loses_no_other(clock):
    run = run_of(Pretending(clock), names=("refused", "broken", "v"))
    assert [(e.variant, e.domain.dtype) for e in run.exhausted] == [("v", "float16")]
    assert run.errors == [
        "refused, one in 16 rows of 2 float16 patterns: out of host memory",
        "broken, one in 16 rows of 2 float16 patterns: internal error: AssertionError('no such thing')",
    ]
    session = Pretending(clock)
    for _ in range(MOST_DEATHS):
        session.patience.count("v", "float16", (Violation(FindingKind.CRASH, "gone"),))
    assert run_of(session).exhausted == []
    assert session.parts == []


def test_without_a_gpu_a_note_says_so_and_unasked_nothing_is_said(clock):
    session = Pretending(clock, backend="interpreter")
    run = run_of(session)
    assert (run.exhausted, session.parts) == ([], [])
    assert run.notes == ["no pairs of 16-bit patterns are judged: that needs a GPU; see softcheck exhaust for a part"]
    assert run_of(session, exhaustive=False).notes == []
