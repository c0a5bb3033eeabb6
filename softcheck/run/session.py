"""Runs cases on variants in worker processes and gathers what they measured. Imports no torch."""

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles.formats import FORMATS
from softcheck.cases.case import Case
from softcheck.cases.exhaustive import Domain
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.run.process import DeviceChoice, Worker, WorkerDiedError
from softcheck.run.protocol import (
    Declared,
    Done,
    Failed,
    Load,
    Loaded,
    Measured,
    Ready,
    Refused,
    RunCase,
    RunDomain,
    Started,
    Time,
    Timed,
    TimedBaselines,
)
from softcheck.variants.declaration import Declaration

Progress = Callable[[int, int], None]
"""Called with (cases done, cases in all) as results arrive."""


@dataclass(frozen=True, slots=True)
class Result:
    """One variant's measurement on one case."""

    variant: str
    case: Case
    measurement: Measurement
    seconds: float


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds per call on one shape: each variant's (None with a reason), a device copy's and torch.softmax's."""

    dtype: str
    rows: int
    columns: int
    seconds: dict[str, Timed]
    copy_seconds: float
    torch_seconds: float


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a worker thread hands to the main thread: a result, or the end of a case."""

    result: Result | None = None
    finished: bool = False
    error: SoftcheckError | None = None


class Session:
    """A pool of worker processes on one device, started as they are needed and replaced when they die."""

    def __init__(self, device: DeviceChoice, *, jobs: int | None = None, seconds_per_call: float = 120.0) -> None:
        """Opens the first worker, so that a missing device is known at once.

        Raises NothingRunError where ``device`` is "cuda" and there is none.
        """
        self._choice: DeviceChoice = device
        self._seconds = seconds_per_call
        self._first = Worker(device)
        self.ready: Ready = self._first.ready
        self._idle: list[Worker] = [self._first]
        self._lock = threading.Lock()
        self._all: set[Worker] = {self._first}
        self._closed = False
        self._timeouts: collections.Counter[str] = collections.Counter()
        self.given_up: set[str] = set()
        """Variants that timed out too often to go on with."""
        self.jobs = jobs if jobs is not None else default_jobs(self.ready.backend)

    def load(self, spec: str, dtypes: Sequence[str] = tuple(FORMATS)) -> Declaration | str:
        """A variant's declaration, or the reason why it can't be judged at all in the first dtype that it declares."""
        worker = self._take()
        declared: Declaration | None = None
        try:
            for reply in worker.ask(Load(spec, tuple(dtypes)), until=(Loaded, Refused, Failed), seconds=self._seconds):
                if isinstance(reply, Declared):
                    declared = reply.declaration
                elif isinstance(reply, Loaded):
                    (self._forget if reply.fatal else self._give)(worker)
                    return reply.declaration
                elif isinstance(reply, Refused | Failed):
                    self._give(worker)
                    return reply.message
        except WorkerDiedError as died:
            self._forget(worker)
            # Once declared, it is a variant: that it dies is for its cases to find.
            return declared if declared is not None else f"while it was imported: {died}"
        raise AssertionError("ask() always ends with one of the awaited replies")

    def run_case(
        self,
        case: Case,
        variants: Sequence[str],
        *,
        whole: bool = False,
        on_result: Callable[[Result], None] = lambda _: None,
    ) -> list[Result]:
        """Results of the variants on one case, in order. A variant that ends its worker gets a finding; the rest go on.

        Each result reaches ``on_result`` as soon as it is measured. ``whole`` runs every row under the interpreter too.
        Raises SoftcheckError where the case itself can't be made.
        """
        results: list[Result] = []
        first_rows = None if whole else rows_to_run(case, self.ready.backend)

        def keep(result: Result) -> None:
            results.append(result)
            waiting.remove(result.variant)
            on_result(result)

        waiting = [name for name in variants if name not in self.given_up]
        fresh = False
        while waiting:
            before = len(results)
            under_way: list[str] = []
            worker = self._take(fresh=fresh)
            chosen = waiting[:1] if fresh else waiting
            try:
                self._run_on(worker, RunCase(case, tuple(chosen), first_rows), under_way, keep)
                fresh = False
            except WorkerDiedError as died:
                self._forget(worker)
                if self._closed:
                    raise
                if under_way:
                    shared = worker.served - set(under_way)
                    if shared and not died.timed_out and not fresh:
                        # Another variant may have corrupted the process; alone in a new one, this one shows itself.
                        fresh = True
                        continue
                    keep(_ended(under_way[0], case, first_rows, died))
                    self._count_timeout(under_way[0], died)
                elif len(results) == before:
                    # No variant had started: the case is to blame, and would end the next worker too.
                    raise SoftcheckError(f"case {case.id}: {died}") from None
        return results

    def _run_on(self, worker: Worker, request: RunCase, under_way: list[str], keep: Callable[[Result], None]) -> None:
        """Asks a worker; ``under_way`` holds the variant that is running, if any, when this raises."""
        for reply in worker.ask(request, until=(Done, Failed), seconds=self._seconds):
            if isinstance(reply, Started):
                under_way[:] = [reply.variant]
                worker.served.add(reply.variant)
            elif isinstance(reply, Measured):
                under_way.clear()
                keep(Result(reply.variant, request.case, reply.measurement, reply.seconds))
            elif isinstance(reply, Failed):
                self._give(worker)
                raise SoftcheckError(f"case {request.case.id}: {reply.message}")
        self._give(worker)

    def run_domain(self, variant: str, domain: Domain, start: int, count: int) -> Measurement:
        """The measurement of one variant on a part of a domain.

        Raises SoftcheckError where the part can't be run.
        """
        worker = self._take()
        request = RunDomain(domain, start, count, variant)
        found: Measurement | None = None
        try:
            for reply in worker.ask(request, until=(Done, Failed), seconds=self._seconds):
                if isinstance(reply, Measured):
                    found = reply.measurement
                elif isinstance(reply, Failed):
                    self._give(worker)
                    raise SoftcheckError(f"{variant}: {reply.message}")
        except WorkerDiedError as died:
            self._forget(worker)
            if self._closed:
                raise
            if found is not None:
                return found
            kind = FindingKind.TIMEOUT if died.timed_out else FindingKind.CRASH
            violation = Violation(kind, f"{died}; expected an output for rows {start} to {start + count}")
            return unmeasured((count, domain.columns), (violation,))
        self._give(worker)
        assert found is not None
        return found

    def run(
        self, tasks: Sequence[tuple[Case, Sequence[str]]], on_result: Callable[[Result], None], progress: Progress
    ) -> list[str]:
        """Runs every task on the pool; results reach ``on_result`` in the calling thread as they come.

        Returns one message per case that could not be made or placed.
        """
        todo = collections.deque(task for task in tasks if task[1])
        total = len(todo)
        done: queue.Queue[_Outcome] = queue.Queue()
        threads = [
            threading.Thread(target=self._work, args=(todo, done), daemon=True) for _ in range(min(self.jobs, total))
        ]
        for thread in threads:
            thread.start()
        errors = []
        finished = 0
        while finished < total:
            outcome = done.get()
            if outcome.result is not None:
                on_result(outcome.result)
            if outcome.error is not None:
                errors.append(str(outcome.error))
            if outcome.finished:
                finished += 1
                progress(finished, total)
        for thread in threads:
            thread.join()
        return errors

    def time(self, variants: Sequence[str], dtype: str, shape: tuple[int, int], seed: int) -> Speeds | str:
        """Times variants side by side on one shape, or says why that failed."""
        worker = self._take()
        seconds: dict[str, Timed] = {}
        baselines: TimedBaselines | None = None
        request = Time(tuple(variants), dtype, shape[0], shape[1], seed)
        try:
            for reply in worker.ask(request, until=(Done, Failed), seconds=self._seconds):
                if isinstance(reply, Timed):
                    seconds[reply.variant] = reply
                elif isinstance(reply, TimedBaselines):
                    baselines = reply
                elif isinstance(reply, Failed):
                    self._give(worker)
                    return reply.message
        except WorkerDiedError as died:
            self._forget(worker)
            return str(died)
        self._give(worker)
        assert baselines is not None
        return Speeds(dtype, shape[0], shape[1], seconds, baselines.copy_seconds, baselines.torch_seconds)

    def close(self) -> None:
        """Ends every worker. Safe to call twice and from a signal's aftermath."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
            self._all.clear()
            self._idle.clear()
        for worker in workers:
            worker.close()

    def _work(self, todo: "collections.deque[tuple[Case, Sequence[str]]]", done: "queue.Queue[_Outcome]") -> None:
        while True:
            try:
                case, variants = todo.popleft()
            except IndexError:
                return
            try:
                self.run_case(case, variants, on_result=lambda result: done.put(_Outcome(result=result)))
                done.put(_Outcome(finished=True))
            except SoftcheckError as error:
                done.put(_Outcome(finished=True, error=error))
                if self._closed:
                    return
            except Exception as error:  # noqa: BLE001 - a silent thread would leave the main thread waiting for ever
                internal = SoftcheckError(f"case {case.id}: internal error: {error!r}")
                done.put(_Outcome(finished=True, error=internal))

    def _count_timeout(self, variant: str, died: WorkerDiedError) -> None:
        if not died.timed_out:
            return
        with self._lock:
            self._timeouts[variant] += 1
            if self._timeouts[variant] >= MOST_TIMEOUTS:
                self.given_up.add(variant)

    def _take(self, *, fresh: bool = False) -> Worker:
        with self._lock:
            self._refuse_if_closed()
            if self._idle and not fresh:
                return self._idle.pop()
        worker = Worker(self._choice)
        with self._lock:
            if self._closed:
                worker.close()
            self._refuse_if_closed()
            self._all.add(worker)
        return worker

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise WorkerDiedError("the session is closed", timed_out=False)

    def _give(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def _forget(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)


def default_jobs(backend: str) -> int:
    """Worker processes at once: one per core; on a GPU at most 12, since each holds a context on the device."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, 12)) if backend == "cuda" else cores


MOST_TIMEOUTS = 3
"""After so many cases that ran out of time a variant is given up, or it would hold the run for hours."""

_INTERPRETER_ROWS = 40
_INTERPRETER_ELEMENTS = 2**15


def rows_to_run(case: Case, backend: str) -> int | None:
    """How many of a case's rows run. All on a GPU (None); under the interpreter the first ones.

    The interpreter takes about a millisecond per program, so there a case is cut to its first 40 rows or, for wide
    rows, to as many as hold 2^15 elements, and at least 2.
    """
    if backend == "cuda":
        return None
    rows, columns = case.shape
    limit = max(2, min(_INTERPRETER_ROWS, _INTERPRETER_ELEMENTS // max(1, columns)))
    return None if rows <= limit else limit


def _ended(variant: str, case: Case, first_rows: int | None, died: WorkerDiedError) -> Result:
    kind = FindingKind.TIMEOUT if died.timed_out else FindingKind.CRASH
    violation = Violation(kind, f"{died}; expected an output")
    rows, columns = case.shape
    return Result(variant, case, unmeasured((min(rows, first_rows or rows), columns), (violation,)), 0.0)
