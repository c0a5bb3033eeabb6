"""A pool of worker processes on one device, and jobs spread over them. Imports no torch."""

import bisect
import collections
import contextlib
import copy
import operator
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from softcheck.contract import Violation
from softcheck.errors import SoftcheckError
from softcheck.run.blames import Blames
from softcheck.run.calls import failure
from softcheck.run.cores import Share
from softcheck.run.patience import HANG_SECONDS, Patience
from softcheck.run.process import DeviceChoice, Limits, Waits, Worker, WorkerDiedError, waits
from softcheck.run.protocol import LAST, Call, Failed, Ready, Reply, Request, is_fatal
from softcheck.run.widths import COMPILE_SECONDS, WidthLimit, Widths
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.recognised import Recognised

Progress = Callable[[int, int], None]
"""Called with (jobs done, jobs in all) as jobs end."""


class SessionClosedError(SoftcheckError):
    """Raised where a worker is wanted, or has ended, after all workers were ended for good."""


class Devices(Protocol):
    """Several devices, each at a place from 0 on, on which a pool starts its workers."""

    places: int
    jobs: int
    """Number of requests that all devices together are given at once."""

    def start_all(self, choice: DeviceChoice, *, check_heap: bool) -> list[Worker]:
        """Starts a worker at each place. Raises SoftcheckError if two of them differ in device or software."""

    def start(self, choice: DeviceChoice, *, place: int | None, check_heap: bool) -> Worker:
        """Starts a worker at a place, by default at the one with the fewest."""


@dataclass(slots=True)
class _Shared:
    """State shared by a pool and its parts at one place each. ``lock`` guards it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    workers: set[Worker] = field(default_factory=set)
    idle: list[Worker] = field(default_factory=list)
    closed: bool = False
    free: "queue.SimpleQueue[int]" = field(default_factory=queue.SimpleQueue)
    """Places whose device no caller has for itself."""


class Pool:
    """Workers on one device, started as they are needed and replaced when they die."""

    def __init__(
        self,
        device: DeviceChoice,
        *,
        jobs: int | None = None,
        seconds_per_call: float = HANG_SECONDS,
        check_heap: bool = False,
        compile_seconds: float = COMPILE_SECONDS,
        devices: Devices | None = None,
    ) -> None:
        """Starts the first worker, so that a missing device is known at once.

        With ``check_heap``, glibc checks
        the heap of each worker. ``compile_seconds`` are the seconds that the kernels of a wide row may take to compile
        on a GPU. ``devices`` are those of a cluster, in place of this machine's. Raises NothingRunError if ``device`` is
        "cuda" and there is none.
        """
        self._devices = devices
        self._place: int | None = None
        self._choice: DeviceChoice = device
        self._checks_heap = check_heap
        self.seconds = seconds_per_call
        """Seconds that one call may take."""
        self._share = Share() if jobs is None and devices is None else None
        self._shared = _Shared()
        self.patience = Patience(max(HANG_SECONDS, seconds_per_call))
        self.blames = Blames()
        self.widths = Widths(compile_seconds)
        self.facts: dict[str, Recognised] = {}
        """What trials have shown of the variants' calls, by name: every worker is told."""
        self.on_fact: Callable[[str, Recognised], None] = lambda _name, _fact: None
        """Called for each new one."""
        self.declarations: dict[str, Declaration] = {}
        """Declarations of the variants that were loaded."""
        self.at_defaults: dict[str, tuple[str, ...]] = {}
        """Parameters of each variant's function that keep their defaults in its calls."""
        self.slow: set[str] = set()
        """Variants whose first call in a process takes seconds."""
        try:
            first = [self._new_worker()] if devices is None else devices.start_all(device, check_heap=check_heap)
        except BaseException:
            self.close()
            raise
        for worker in first:
            worker.facts = self.facts
        self.ready: Ready = first[0].ready
        self._shared.workers.update(first)
        self._shared.idle += first
        self.places = 1 if devices is None else devices.places
        """Number of devices."""
        for place in range(self.places):
            self._shared.free.put(place)
        if devices is not None:
            self.jobs = devices.jobs
        else:
            self.jobs = jobs if jobs is not None else default_jobs(self.ready.backend)

    @property
    def closed(self) -> bool:
        """True if every worker has been ended for good."""
        return self._shared.closed

    def know(self, variant: str, fact: Recognised) -> None:
        """Keeps what trials have shown of a variant's call. What is known already stays: a run judges one call."""
        if variant not in self.facts:
            self.facts[variant] = fact
            self.on_fact(variant, fact)

    def width_limit(self, variant: str, dtype: str, columns: int) -> WidthLimit | None:
        """Returns the limit that rows of so many columns are beyond, or None.

        Beyond the limit kernels would take too long to compile. Nothing is compiled without a GPU. Widths that were not
        tried yet are tried here, which takes a worker.
        """
        if self.ready.backend != "cuda" or self.patience.over(variant, dtype) is not None:
            return None
        return self.widths.limit(self, variant, dtype, columns)

    def is_declared(self, call: Call, violation: Violation) -> bool:
        """True if a declared defect of the variant explains a broken promise of a call."""
        declared = self.declarations.get(call.variant, Declaration())
        return declared.explanation(violation, call.name, call.dtype, self.ready.backend) is not None

    def waits(self, variant: str | None) -> Waits:
        """Seconds that a call of the variant may take now, and softcheck's own work for None."""
        general, left = waits(self.seconds), self.patience.left
        if variant is None:
            return general
        return general._replace(calling=left(variant, self.seconds), preparing=left(variant, general.preparing))

    def at(self, place: int) -> Self:
        """Returns the part of the pool whose workers are all at a place."""
        other = copy.copy(self)
        other._place = place  # noqa: SLF001 - its own kind
        return other

    @contextlib.contextmanager
    def on_one_device(self) -> Iterator[Self]:
        """A pool on one device that no other caller of this method has meanwhile. Waits for a device."""
        place = self._shared.free.get()
        try:
            yield self.at(place)
        finally:
            self._shared.free.put(place)

    def close(self) -> None:
        """Ends every worker. Safe to call twice and from a signal's aftermath."""
        with self._shared.lock:
            self._shared.closed = True
            workers = list(self._shared.workers)
            self._shared.workers.clear()
            self._shared.idle.clear()
        if self._share is not None:
            self._share.leave()
        _close_all(workers)

    def may_begin(self, running: int) -> bool:
        """True if another job may begin beside ``running`` jobs.

        Reports that run at once share the cores, but not ``--jobs``.
        """
        return running < 1 or self.closed or running < (self._share.of(self.jobs) if self._share else self.jobs)

    def take(self, variant: str | None = None, *, fresh: bool = False, check_heap: bool = False) -> Worker:
        """Returns a worker for one request, first one that has served the variant; with ``fresh``, a new one in which nothing has run yet.

        With ``check_heap``, glibc checks the heap of a fresh one.
        Workers that have served a variant whose first call is slow are left to it as far as there are others.
        """
        with self._shared.lock:
            self.refuse_if_closed()
            idle = [] if fresh else [w for w in reversed(self._shared.idle) if self._place in (None, w.place)]
            if idle:
                worker = max(idle, key=lambda w: (variant in w.served, not w.served & self.slow))
                self._shared.idle.remove(worker)
                return worker
        return self._added(self._new_worker(check_heap=check_heap))

    def give(self, worker: Worker) -> None:
        """Takes back a worker whose request is finished."""
        with self._shared.lock:
            self._shared.idle.append(worker)

    def retire(self, worker: Worker) -> None:
        """Ends a worker that has answered but can't continue."""
        with self._shared.lock:
            self._shared.workers.discard(worker)
        worker.close()

    def retire_idle(self) -> None:
        """Ends all idle workers but one of each device: the one that has served most slow variants, or most variants.

        Each worker holds memory of the device, which a timing needs for itself.
        """
        with self._shared.lock:
            idle = [worker for worker in self._shared.idle if self._place in (None, worker.place)]
            idle.sort(key=lambda worker: (len(worker.served & self.slow), len(worker.served)))
            best = {worker.place: worker for worker in idle}
            retired = [worker for worker in idle if worker is not best[worker.place]]
            self._shared.idle = [worker for worker in self._shared.idle if worker not in retired]
            self._shared.workers.difference_update(retired)
        _close_all(retired)

    def ask(
        self, worker: Worker, request: Request, name: str | None = None, limits: Limits | None = None
    ) -> Iterator[Reply]:
        """Yields a worker's replies to one request, and takes the worker back before the last one.

        A worker that can't continue, is doubted, or has failed is ended. Raises WorkerDiedError if the worker dies, after it is
        buried. Raises TooLittleMemoryError or SoftcheckError, with the request's ``name``, if the request could not be
        carried out; without a name the reply that says so is yielded. ``limits`` are ``waits`` by default.
        """
        try:
            for reply in worker.ask(request, limits or self.waits):
                has_failed = isinstance(reply, Failed) and not reply.for_memory
                if is_fatal(reply) or has_failed or (isinstance(reply, LAST) and worker.is_doubted):
                    self.retire(worker)
                elif isinstance(reply, LAST):
                    self.give(worker)
                if isinstance(reply, Failed) and name is not None:
                    raise failure(reply, name)
                yield reply
        except WorkerDiedError as died:
            self.bury(worker, died)
            raise

    def bury(self, worker: Worker, died: WorkerDiedError) -> None:
        """Drops a worker that died, and counts the seconds that it kept the running variant's caller waiting.

        Raises SessionClosedError if the pool was closed, since the worker was then killed.
        """
        self.retire(worker)
        self.refuse_if_closed()
        if died.timed_out and worker.running is not None:
            self.patience.hung(worker.running, died.waited)

    def _new_worker(self, *, check_heap: bool = False) -> Worker:
        check_heap = check_heap or self._checks_heap
        if self._devices is not None:
            worker: Worker = self._devices.start(self._choice, place=self._place, check_heap=check_heap)
        else:
            worker = Worker(self._choice, check_heap=True) if check_heap else Worker(self._choice)
        worker.facts = self.facts
        return worker

    def _added(self, worker: Worker) -> Worker:
        with self._shared.lock:
            if self.closed:
                worker.close()
            self.refuse_if_closed()
            self._shared.workers.add(worker)
        return worker

    def refuse_if_closed(self) -> None:
        """Raises SessionClosedError if every worker has been ended for good."""
        if self.closed:
            raise SessionClosedError("the session is closed")


_TURN_SECONDS = 0.3


def _close_all(workers: Sequence[Worker]) -> None:
    """Ends workers side by side: a process that used a GPU takes its time to end."""
    with ThreadPoolExecutor(max(1, len(workers))) as threads:
        list(threads.map(lambda worker: worker.close(), workers))


def default_jobs(backend: Backend) -> int:
    """Number of worker processes at once: one per core, and on a GPU at most 12, since each holds a device context."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, 12)) if backend == "cuda" else cores


Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Job(Generic[Item_co]):
    """A job for the pool. ``work`` passes its results to the function that it is called with."""

    name: str
    work: Callable[[Callable[[Item_co], None]], object]
    followers: "Sequence[Job[Item_co]]" = ()
    """Jobs that the work has found to do; they take its place in its lane once it has ended."""


@dataclass(frozen=True, slots=True)
class Lane(Generic[Item_co]):
    """Jobs that begin in order, at most ``most`` of them at once."""

    jobs: Sequence[Job[Item_co]]
    most: int


def spread(pool: Pool, lanes: Sequence[Lane[Item]], deliver: Callable[[Item], None], progress: Progress) -> list[str]:
    """Runs every job in a thread of its own, ``pool.jobs`` at once; items reach ``deliver`` in the calling thread as they come.

    The next job comes from the first lane that may begin one. Returns one message per job that raised.
    """
    events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    waiting, running = [collections.deque(enumerate(lane.jobs)) for lane in lanes], [0] * len(lanes)
    done, errors = 0, list[str]()

    def work(number: int, place: int, job: Job[Item]) -> None:
        error = None
        try:
            job.work(lambda item: events.put(lambda: deliver(item)))
        except SoftcheckError as raised:
            error = str(raised)
        except Exception as raised:  # noqa: BLE001 - a silent thread would leave the main thread waiting for ever
            error = f"{job.name}: internal error: {raised!r}"
        events.put(lambda: ended(number, place, job, error))

    def ended(number: int, place: int, job: Job[Item], error: str | None) -> None:
        nonlocal done
        running[number] -= 1
        at = bisect.bisect(waiting[number], place, key=operator.itemgetter(0))
        for follower in reversed(job.followers):
            waiting[number].insert(at, (place, follower))
        errors.extend([] if error is None else [error])
        done += 1
        progress(done, done + sum(running) + sum(map(len, waiting)))

    while any(waiting) or any(running):
        for number, lane in enumerate(lanes):
            while waiting[number] and running[number] < lane.most:
                if sum(running) >= pool.jobs or not pool.may_begin(sum(running)):
                    break
                running[number] += 1
                threading.Thread(target=work, args=(number, *waiting[number].popleft()), daemon=True).start()
        # Other reports may leave cores to this one.
        with contextlib.suppress(queue.Empty):
            events.get(timeout=_TURN_SECONDS if any(waiting) else None)()
    return errors
