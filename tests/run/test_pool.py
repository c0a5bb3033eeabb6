"""Lanes of jobs on threads, and workers of variants whose first call is slow."""

import threading
import time
from dataclasses import dataclass, field

import msgspec
import pytest

from softcheck.errors import NothingRunError, SoftcheckError, TooLittleMemoryError
from softcheck.judge.measurement import unmeasured
from softcheck.run import pool
from softcheck.run.pool import Job, Lane, Pool, SessionClosedError, spread
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import Done, Failed, Measured


@dataclass(eq=False)
class Pretended:
    """A worker that is no process; it takes a moment to start."""

    device: str
    ready: object = field(default_factory=type("Ready", (), {"backend": "cuda"}))
    served: set = field(default_factory=set)
    ended: bool = False
    is_doubted: bool = False
    running: str | None = None
    place: int = 0

    def close(self):
        self.ended = True

    def ask(self, request, _limits):
        for reply in request:
            if isinstance(reply, WorkerDiedError):
                raise reply
            yield reply


@pytest.fixture
def started(monkeypatch):
    """All workers that were started, in order, and how long a start takes."""
    workers = []

    def start(device):
        time.sleep(0.05)
        if device == "missing":
            raise NothingRunError("no such device")
        workers.append(Pretended(device))
        return workers[-1]

    monkeypatch.setattr(pool, "Worker", start)
    return workers


def test_a_missing_device_is_said_at_once_and_leaves_nothing_behind(started):
    with pytest.raises(NothingRunError, match="no such device"):
        Pool("missing", jobs=4)
    assert started == []


def test_a_pool_that_is_closed_starts_nothing(started):
    opened = Pool("cuda", jobs=3)
    opened.close()
    assert [worker.ended for worker in started] == [True]
    with pytest.raises(SessionClosedError, match="closed"):
        opened.take()


def test_a_worker_that_has_served_a_variant_serves_it_again_and_slow_ones_are_left_alone(started):
    opened = Pool("cuda", jobs=4)
    opened.slow.add("compiled")
    first, second, third = (opened.take() for _ in range(3))
    first.served |= {"compiled"}
    second.served |= {"torch"}
    for worker in (third, second, first):
        opened.give(worker)
    assert opened.take("torch") is second
    assert opened.take("online") is third
    assert opened.take("compiled") is first


def test_of_idle_workers_the_one_that_has_served_what_is_slow_to_begin_is_kept(started):
    opened = Pool("cuda", jobs=3)
    opened.slow.add("compiled")
    first, second, third = (opened.take() for _ in range(3))
    first.served |= {"compiled"}
    second.served |= {"compiled", "torch"}
    third.served |= {"torch", "one_block", "online"}
    for worker in (second, first, third):
        opened.give(worker)
    opened.retire_idle()
    assert [first.ended, second.ended, third.ended] == [True, False, True]
    assert opened.take() is second


@pytest.fixture
def opened(started):
    return Pool("cuda", jobs=4)


def test_a_lane_has_no_more_jobs_under_way_than_it_may(opened):
    running, most = {"few": 0, "many": 0}, {"few": 0, "many": 0}
    lock = threading.Lock()

    def job(lane, number):
        def work(emit):
            with lock:
                running[lane] += 1
                most[lane] = max(most[lane], running[lane])
            time.sleep(0.02)
            with lock:
                running[lane] -= 1
            emit((lane, number))

        return Job(lane, work)

    lanes = [Lane([job("few", i) for i in range(6)], 1), Lane([job("many", i) for i in range(12)], 4)]
    found, counted = [], []
    assert spread(opened, lanes, found.append, lambda *now: counted.append(now)) == []
    assert sorted(found) == sorted([("few", i) for i in range(6)] + [("many", i) for i in range(12)])
    assert [number for lane, number in found if lane == "few"] == list(range(6))
    assert most["few"] == 1
    assert 2 <= most["many"] <= 4
    assert counted == [(n, 18) for n in range(1, 19)]


def test_the_first_lane_is_begun_first(opened):
    opened.jobs = 1
    order = []
    lanes = [Lane([Job(name, lambda _, name=name: order.append(name)) for name in names], 1) for names in ("ab", "cd")]
    spread(opened, lanes, print, lambda *_: None)
    assert order == ["a", "b", "c", "d"]


def test_jobs_that_a_job_finds_take_its_place_in_its_lane(opened):
    opened.jobs = 2
    order, counted = [], []
    a_has_begun, is_planned = threading.Event(), threading.Event()

    def job(name):
        return Job(name, lambda _: order.append(name))

    def plan_first(_emit):
        first.extend((Job("a", begin_a), job("b")))

    def begin_a(_emit):
        order.append("a")
        a_has_begun.set()
        assert is_planned.wait(10)

    def plan_second(_emit):
        assert a_has_begun.wait(10)
        second.extend((job("c"), job("d")))
        opened.jobs = 1
        is_planned.set()

    first, second = [], []
    lane = Lane([Job("plan", plan_first, first), Job("plan", plan_second, second), job("last")], 2)
    assert spread(opened, [lane], print, lambda *now: counted.append(now)) == []
    assert order == ["a", "b", "c", "d", "last"]
    assert counted[-1] == (7, 7)


def test_an_error_costs_its_job_alone(opened):
    def refuses(_emit):
        raise SoftcheckError("cannot be made")

    def breaks(_emit):
        raise ZeroDivisionError

    jobs = [Job("first", refuses), Job("second", breaks), Job("third", lambda emit: emit(3))]
    found = []
    errors = spread(opened, [Lane(jobs, 1)], found.append, lambda *_: None)
    assert errors == ["cannot be made", "second: internal error: ZeroDivisionError()"]
    assert found == [3]


def test_no_jobs_are_done_at_once(opened):
    assert spread(opened, [], print, print) == spread(opened, [Lane([], 3)], print, print) == []


MEASURED = Measured(unmeasured((1, 1), ()), 0.1)


@pytest.mark.parametrize(
    ("replies", "doubted", "is_ended"),
    [
        ([MEASURED, Done()], False, False),
        ([MEASURED, Done()], True, True),
        ([msgspec.structs.replace(MEASURED, fatal=True)], False, True),
        ([Failed("no room", for_memory=True)], False, False),
        ([Failed("internal error")], False, True),
    ],
)
def test_a_worker_is_taken_back_before_its_last_reply_unless_it_may_serve_no_more(started, replies, doubted, is_ended):
    opened = Pool("cuda", jobs=2)
    worker = opened.take()
    worker.is_doubted = doubted
    seen = [(reply, worker.ended) for reply in opened.ask(worker, replies)]
    assert [reply for reply, _ in seen] == replies
    assert [ended for _, ended in seen] == [*[False] * (len(replies) - 1), is_ended]
    assert (opened.take() is worker) is not is_ended


def test_a_request_with_a_name_raises_what_could_not_be_done(started):
    opened = Pool("cuda", jobs=2)
    worker = opened.take()
    with pytest.raises(TooLittleMemoryError, match="case x: no room"):
        list(opened.ask(worker, [Failed("no room", for_memory=True)], "case x"))
    assert opened.take() is worker


def test_a_worker_that_dies_is_buried_and_its_wait_charged_to_the_variant_that_ran(started):
    opened = Pool("cuda", jobs=2)
    worker = opened.take()
    worker.running = "slow"
    with pytest.raises(WorkerDiedError):
        list(opened.ask(worker, [MEASURED, WorkerDiedError("no answer", timed_out=True, waited=600.0)]))
    assert worker.ended
    assert opened.patience.over("slow", "float16") is not None
    assert opened.patience.over("other", "float16") is None


def test_the_end_of_a_worker_of_a_closed_pool_is_no_variants_fault(started):
    opened = Pool("cuda", jobs=2)
    worker = opened.take()
    worker.running = "slow"
    opened.close()
    with pytest.raises(SessionClosedError, match="closed"):
        list(opened.ask(worker, [WorkerDiedError("gone", timed_out=True, waited=600.0)]))
    assert opened.patience.over("slow", "float16") is None
