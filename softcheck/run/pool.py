"""A pool of worker processes on one device, and jobs spread over it. Imports no torch."""

import collections
import copy
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from softcheck.errors import SoftcheckError
from softcheck.run.blames import Blames
from softcheck.run.patience import Patience
from softcheck.run.process import DeviceChoice, Worker, WorkerDiedError
from softcheck.run.protocol import Ready
from softcheck.run.widths import COMPILE_SECONDS, WidthLimit, Widths
from softcheck.variants.declaration import Backend

Progress = Callable[[int, int], None]
"""Called with (jobs done, jobs in all) as they end."""


@dataclass(slots=True)
class _Shared:
    """What a pool and those set apart from it have in common; ``changed`` guards it and their idle workers."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    workers: set[Worker] = field(default_factory=set)
    coming: int = 0
    """Workers that are being started ahead."""
    closed: bool = False


class Pool:
    """Workers on one device, started as they are needed and replaced when they die."""

    def __init__(
        self,
        device: DeviceChoice,
        *,
        jobs: int | None = None,
        seconds_per_call: float = 120.0,
        ahead: int = 0,
        check_heap: bool = False,
        compile_seconds: float = COMPILE_SECONDS,
    ) -> None:
        """Opens the first worker, so that a missing device is known at once, and beside it up to ``ahead`` more.

        Those are no more than ``jobs``, and are not waited for. ``check_heap`` has glibc check the heap of each;
        ``compile_seconds`` are what the kernels of a wide row may take to compile on a GPU. Raises NothingRunError where
        ``device`` is "cuda" and there is none.
        """
        self._choice: DeviceChoice = device
        self._checks_heap = check_heap
        self.seconds = seconds_per_call
        """How long a worker may take for one reply."""
        self._shared = _Shared()
        self._idle: list[Worker] = []
        self._lender: Pool | None = None
        self.patience = Patience()
        self.blames = Blames()
        self.widths = Widths(compile_seconds)
        self.slow: set[str] = set()
        """Variants whose first call in a process takes seconds."""
        try:
            self._start_ahead(min(ahead, (jobs or default_jobs("cuda")) - 1))
            first = self._new_worker()
        except BaseException:
            self.close()
            raise
        self.ready: Ready = first.ready
        self._shared.workers.add(first)
        self._idle.append(first)
        self.jobs = jobs if jobs is not None else default_jobs(self.ready.backend)

    @property
    def closed(self) -> bool:
        """Whether every worker has been ended for good."""
        return self._shared.closed

    def width_limit(self, variant: str, dtype: str, columns: int) -> WidthLimit | None:
        """The limit that such wide rows are beyond, since their kernels would take too long to compile; None if they aren't.

        Nothing is compiled without a GPU. Widths that were not tried yet are tried here, which takes a worker.
        """
        if self.ready.backend != "cuda" or self.patience.over(variant, dtype) is not None:
            return None
        return self.widths.limit(self, variant, dtype, columns)

    def apart(self) -> Self:
        """The same pool for work that keeps workers to itself, as what a variant's first call prepares is in its process.

        It takes its first ones from this pool; what it is given back comes to no one else before ``rejoin``.
        """
        other = copy.copy(self)
        other._idle = []  # noqa: SLF001 - its own kind
        other._lender = self  # noqa: SLF001
        return other

    def rejoin(self) -> None:
        """Hands the idle workers back to the pool that this one was set apart from."""
        if self._lender is not None:
            with self._shared.changed:
                self._lender._idle += self._idle  # noqa: SLF001
                self._idle.clear()
                self._shared.changed.notify_all()

    def close(self) -> None:
        """Ends every worker. Safe to call twice and from a signal's aftermath."""
        with self._shared.changed:
            self._shared.closed = True
            workers = list(self._shared.workers)
            self._shared.workers.clear()
            self._idle.clear()
            self._shared.changed.notify_all()
        _close_all(workers)

    def take(self, *, fresh: bool = False) -> Worker:
        """A worker for one request; ``fresh`` asks for one in which nothing has run yet."""
        with self._shared.changed:
            while not fresh and not self.closed:
                for idle in (self._idle, [] if self._lender is None else self._lender._idle):  # noqa: SLF001
                    if idle:
                        return idle.pop()
                if not self._shared.coming:
                    break
                self._shared.changed.wait()
            self._refuse_if_closed()
        return self._added(self._new_worker())

    def take_checked(self) -> Worker:
        """A worker in which nothing has run yet, whose heap glibc checks. It is for one purpose: end it with ``retire``."""
        return self._added(Worker(self._choice, check_heap=True))

    def give(self, worker: Worker) -> None:
        """Takes back a worker whose request is finished."""
        with self._shared.changed:
            self._idle.append(worker)
            self._shared.changed.notify_all()

    def forget(self, worker: Worker) -> None:
        """Drops a worker that has ended."""
        with self._shared.changed:
            self._shared.workers.discard(worker)

    def retire(self, worker: Worker) -> None:
        """Ends a worker that has answered but can't go on."""
        self.forget(worker)
        worker.close()

    def retire_idle(self) -> None:
        """Ends all idle workers but the one that is readiest: each holds memory of the device, which a timing needs for itself."""
        with self._shared.changed:
            self._idle.sort(key=lambda worker: (len(worker.served & self.slow), len(worker.served)))
            retired = self._idle[:-1]
            del self._idle[:-1]
            self._shared.workers.difference_update(retired)
        _close_all(retired)

    def bury(self, worker: Worker, died: WorkerDiedError) -> None:
        """Drops a worker that died. Raises the error itself where the pool was closed, for then the worker was killed."""
        self.retire(worker)
        if self.closed:
            raise died

    def _new_worker(self) -> Worker:
        return Worker(self._choice, check_heap=True) if self._checks_heap else Worker(self._choice)

    def _added(self, worker: Worker) -> Worker:
        with self._shared.changed:
            if self.closed:
                worker.close()
            self._refuse_if_closed()
            self._shared.workers.add(worker)
        return worker

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise WorkerDiedError("the session is closed", timed_out=False)

    def _start_ahead(self, count: int) -> None:
        for _ in range(count):
            with self._shared.changed:
                self._shared.coming += 1
            threading.Thread(target=self._start_one, daemon=True).start()

    def _start_one(self) -> None:
        worker = None
        try:
            worker = self._new_worker()
        except (SoftcheckError, OSError):
            # Whoever asks for a worker next meets it too, and can say so.
            return
        finally:
            with self._shared.changed:
                self._shared.coming -= 1
                if worker is not None and not self.closed:
                    self._shared.workers.add(worker)
                    self._idle.append(worker)
                    worker = None
                self._shared.changed.notify_all()
            if worker is not None:
                worker.close()


def _close_all(workers: Sequence[Worker]) -> None:
    """Side by side: a process that used a GPU takes its time to end."""
    with ThreadPoolExecutor(max(1, len(workers))) as threads:
        list(threads.map(lambda worker: worker.close(), workers))


def default_jobs(backend: Backend) -> int:
    """Worker processes at once: one per core; on a GPU at most 12, since each holds a context on the device."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, 12)) if backend == "cuda" else cores


Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Job(Generic[Item_co]):
    """Something to do on the pool; ``work`` hands on what it finds through the function that it is given."""

    name: str
    work: Callable[[Callable[[Item_co], None]], object]


@dataclass(frozen=True, slots=True)
class Lane(Generic[Item_co]):
    """Jobs that are begun in order, at most so many of them at once."""

    jobs: Sequence[Job[Item_co]]
    most: int


@dataclass(frozen=True, slots=True)
class _Event(Generic[Item]):
    """What a thread hands to the main thread: an item, or the end of a job."""

    items: tuple[Item, ...] = ()
    finished: bool = False
    error: str | None = None


def spread(pool: Pool, lanes: Sequence[Lane[Item]], deliver: Callable[[Item], None], progress: Progress) -> list[str]:
    """Runs every job, ``pool.jobs`` at once; items reach ``deliver`` in the calling thread as they come.

    Of the lanes that may begin another job the first is served. Returns one message per job that raised.
    """
    total = sum(len(lane.jobs) for lane in lanes)
    todo = _Todo(lanes)
    events: queue.Queue[_Event[Item]] = queue.Queue()
    count = min(pool.jobs, sum(min(lane.most, len(lane.jobs)) for lane in lanes))
    threads = [threading.Thread(target=_work, args=(pool, todo, events), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    errors = []
    finished = 0
    while finished < total:
        event = events.get()
        for item in event.items:
            deliver(item)
        if event.error is not None:
            errors.append(event.error)
        if event.finished:
            finished += 1
            progress(finished, total)
    for thread in threads:
        thread.join()
    return errors


class _Todo(Generic[Item]):
    """Jobs that have not begun, and how many of each lane run."""

    def __init__(self, lanes: Sequence[Lane[Item]]) -> None:
        self._lock = threading.Lock()
        self._lanes = [(collections.deque(lane.jobs), lane.most) for lane in lanes]
        self._running = [0] * len(lanes)

    def begin(self) -> tuple[int, Job[Item]] | None:
        """A job and its lane's number; None where each job that is left waits for the end of another of its lane."""
        with self._lock:
            for number, (jobs, most) in enumerate(self._lanes):
                if jobs and self._running[number] < most:
                    self._running[number] += 1
                    return number, jobs.popleft()
        return None

    def end(self, number: int) -> None:
        """A job of this lane is done."""
        with self._lock:
            self._running[number] -= 1


def _work(pool: Pool, todo: "_Todo[Item]", events: "queue.Queue[_Event[Item]]") -> None:
    # Whoever ends a lane's job looks for another: what waits for that is not forgotten by those who leave.
    while (begun := todo.begin()) is not None:
        number, job = begun
        try:
            job.work(lambda item: events.put(_Event((item,))))
            ended: _Event[Item] = _Event(finished=True)
        except SoftcheckError as error:
            ended = _Event(finished=True, error=str(error))
        except Exception as error:  # noqa: BLE001 - a silent thread would leave the main thread waiting for ever
            ended = _Event(finished=True, error=f"{job.name}: internal error: {error!r}")
        todo.end(number)
        events.put(ended)
        if ended.error is not None and pool.closed:
            return
