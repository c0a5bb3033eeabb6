"""A pool of worker processes on one device, and jobs spread over it. Imports no torch."""

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from softcheck.errors import SoftcheckError
from softcheck.run.patience import Patience
from softcheck.run.process import DeviceChoice, Worker, WorkerDiedError
from softcheck.run.protocol import Ready

Progress = Callable[[int, int], None]
"""Called with (jobs done, jobs in all) as they end."""


class Pool:
    """Workers on one device, started as they are needed and replaced when they die."""

    def __init__(self, device: DeviceChoice, *, jobs: int | None = None, seconds_per_call: float = 120.0) -> None:
        """Opens the first worker, so that a missing device is known at once.

        Raises NothingRunError where ``device`` is "cuda" and there is none.
        """
        self._choice: DeviceChoice = device
        self.seconds = seconds_per_call
        """How long a worker may take for one reply."""
        first = Worker(device)
        self.ready: Ready = first.ready
        self._idle: list[Worker] = [first]
        self._lock = threading.Lock()
        self._all: set[Worker] = {first}
        self.closed = False
        self.patience = Patience()
        self.jobs = jobs if jobs is not None else default_jobs(self.ready.backend)

    def close(self) -> None:
        """Ends every worker. Safe to call twice and from a signal's aftermath."""
        with self._lock:
            self.closed = True
            workers = list(self._all)
            self._all.clear()
            self._idle.clear()
        for worker in workers:
            worker.close()

    def take(self, *, fresh: bool = False) -> Worker:
        """A worker for one request; ``fresh`` asks for one in which nothing has run yet."""
        with self._lock:
            self._refuse_if_closed()
            if self._idle and not fresh:
                return self._idle.pop()
        worker = Worker(self._choice)
        with self._lock:
            if self.closed:
                worker.close()
            self._refuse_if_closed()
            self._all.add(worker)
        return worker

    def give(self, worker: Worker) -> None:
        """Takes back a worker whose request is finished."""
        with self._lock:
            self._idle.append(worker)

    def forget(self, worker: Worker) -> None:
        """Drops a worker that has ended."""
        with self._lock:
            self._all.discard(worker)

    def retire(self, worker: Worker) -> None:
        """Ends a worker that has answered but can't go on."""
        self.forget(worker)
        worker.close()

    def retire_idle(self) -> None:
        """Ends all idle workers but one: each holds memory of the device, which a timing needs for itself."""
        with self._lock:
            retired = self._idle[:-1]
            del self._idle[:-1]
            self._all.difference_update(retired)
        for worker in retired:
            worker.close()

    def bury(self, worker: Worker, died: WorkerDiedError, variant: str | None) -> bool:
        """Drops a worker that died while ``variant`` was running, and says whether to try the variant again alone.

        Another variant may have corrupted the process; alone in a new one, this one shows itself. Raises the error itself
        where the pool was closed, for then the worker was killed.
        """
        self.forget(worker)
        if self.closed:
            raise died
        return not died.timed_out and bool(worker.served - {variant})

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise WorkerDiedError("the session is closed", timed_out=False)


def default_jobs(backend: str) -> int:
    """Worker processes at once: one per core; on a GPU at most 12, since each holds a context on the device."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, 12)) if backend == "cuda" else cores


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Job(Generic[Item]):
    """Something to do on the pool; ``work`` hands on what it finds through the function that it is given."""

    name: str
    work: Callable[[Callable[[Item], None]], object]


@dataclass(frozen=True, slots=True)
class _Event(Generic[Item]):
    """What a thread hands to the main thread: an item, or the end of a job."""

    items: tuple[Item, ...] = ()
    finished: bool = False
    error: str | None = None


def spread(
    pool: Pool, jobs: Sequence[Job[Item]], deliver: Callable[[Item], None], progress: Progress, *, threads: int
) -> list[str]:
    """Runs every job, ``threads`` at once; items reach ``deliver`` in the calling thread as they come.

    Returns one message per job that raised.
    """
    todo = collections.deque(jobs)
    total = len(todo)
    events: queue.Queue[_Event[Item]] = queue.Queue()
    workers = [
        threading.Thread(target=_work, args=(pool, todo, events), daemon=True) for _ in range(min(threads, total))
    ]
    for worker in workers:
        worker.start()
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
    for worker in workers:
        worker.join()
    return errors


def _work(pool: Pool, todo: "collections.deque[Job[Item]]", events: "queue.Queue[_Event[Item]]") -> None:
    while True:
        try:
            job = todo.popleft()
        except IndexError:
            return
        try:
            job.work(lambda item: events.put(_Event((item,))))
            events.put(_Event(finished=True))
        except SoftcheckError as error:
            events.put(_Event(finished=True, error=str(error)))
            if pool.closed:
                return
        except Exception as error:  # noqa: BLE001 - a silent thread would leave the main thread waiting for ever
            events.put(_Event(finished=True, error=f"{job.name}: internal error: {error!r}"))
