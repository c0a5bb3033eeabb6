"""Runs cases on variants in worker processes and gathers what they measured. Imports no torch."""

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from softcheck.cases.case import Case
from softcheck.cases.exhaustive import Domain
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.run.process import DeviceChoice, Worker, WorkerDiedError
from softcheck.run.protocol import (
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
    """What a worker thread hands to the main thread for one case."""

    results: list[Result] = field(default_factory=list)
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
        self.jobs = jobs if jobs is not None else default_jobs(self.ready.backend)

    def load(self, spec: str) -> Declaration | str:
        """A variant's declaration, or the reason why it can't be judged at all."""
        worker = self._take()
        try:
            for reply in worker.ask(Load(spec), until=(Loaded, Refused, Failed), seconds=self._seconds):
                if isinstance(reply, Loaded):
                    self._give(worker)
                    return reply.declaration
                if isinstance(reply, Refused | Failed):
                    self._give(worker)
                    return reply.message
        except WorkerDiedError as died:
            self._forget(worker)
            return f"while it was imported or first called: {died}"
        raise AssertionError("ask() always ends with one of the awaited replies")

    def run_case(self, case: Case, variants: Sequence[str]) -> list[Result]:
        """Results of the variants on one case, in order. A variant that ends its worker gets a finding; the rest go on.

        Raises SoftcheckError where the case itself can't be made.
        """
        results: list[Result] = []
        waiting = list(variants)
        while waiting:
            worker = self._take()
            running: str | None = None
            before = len(results)
            request = RunCase(case, tuple(waiting), rows_to_run(case, self.ready.backend))
            try:
                for reply in worker.ask(request, until=(Done, Failed), seconds=self._seconds):
                    if isinstance(reply, Started):
                        running = reply.variant
                    elif isinstance(reply, Measured):
                        results.append(Result(reply.variant, case, reply.measurement, reply.seconds))
                        waiting.remove(reply.variant)
                        running = None
                    elif isinstance(reply, Failed):
                        self._give(worker)
                        raise SoftcheckError(f"case {case.id}: {reply.message}")
                self._give(worker)
            except WorkerDiedError as died:
                self._forget(worker)
                if self._closed:
                    raise
                if running is None and len(results) == before:
                    # No variant had started: the case is to blame, and would end the next worker too.
                    raise SoftcheckError(f"case {case.id}: {died}") from None
                if running is not None:
                    results.append(_ended(running, case, died))
                    waiting.remove(running)
        return results

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
            if found is not None:
                return found
            kind = FindingKind.TIMEOUT if died.timed_out else FindingKind.CRASH
            violation = Violation(kind, f"{died}; expected an output for rows {start} to {start + count}", row=start)
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
        for count in range(1, total + 1):
            outcome = done.get()
            for result in outcome.results:
                on_result(result)
            if outcome.error is not None:
                errors.append(str(outcome.error))
            progress(count, total)
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
                done.put(_Outcome(self.run_case(case, variants)))
            except SoftcheckError as error:
                done.put(_Outcome(error=error))
            except Exception as error:  # noqa: BLE001 - a silent thread would leave the main thread waiting for ever
                done.put(_Outcome(error=SoftcheckError(f"case {case.id}: internal error: {error!r}")))

    def _take(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = Worker(self._choice)
        with self._lock:
            self._all.add(worker)
        return worker

    def _give(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def _forget(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)


def default_jobs(backend: str) -> int:
    """Worker processes at once: one per core; on a GPU at most 12, since each holds a context on the device."""
    cores = os.cpu_count() or 1
    return max(1, min(cores, 12)) if backend == "cuda" else cores


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


def _ended(variant: str, case: Case, died: WorkerDiedError) -> Result:
    kind = FindingKind.TIMEOUT if died.timed_out else FindingKind.CRASH
    violation = Violation(kind, f"{died}; expected an output")
    return Result(variant, case, unmeasured(case.shape, (violation,)), 0.0)
