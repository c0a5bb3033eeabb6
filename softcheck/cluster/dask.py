"""A Dask cluster as the devices of a pool: places, starts of processes, and requests as tasks. Imports no torch."""

import contextlib
import importlib.util
import itertools
import logging
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker

from softcheck.cluster.host import Child, Lease, TaskAnswer, end, serve, sources
from softcheck.cluster.remote import MOST_LOST, HostLostError, RemoteWorker, WaitsByName
from softcheck.errors import NothingRunError, SoftcheckError, UsageError
from softcheck.run.pool import SessionClosedError
from softcheck.run.process import DeviceChoice, Worker
from softcheck.run.protocol import Request
from softcheck.variants.declaration import Backend

RESOURCES: dict[Backend, str] = {"cuda": "GPU", "interpreter": "CPU"}
"""Resource of which each Dask worker has 1. A request that needs the device for itself takes all of it."""

_SHARE = 2.0**-10
"""Part of the resource that another request takes: a power of two, so that sums are exact."""

_RETURN_SECONDS = 120.0
"""Seconds for which a cluster may be without a worker. A Nanny starts an ended one anew within a few."""

_LOOK_SECONDS = 2.0
"""Between two looks at the cluster while a request is under way."""


_ANSWER_SECONDS = 60.0
"""Seconds within which a scheduler must answer, and the workers that are waited for must have come."""


class DaskCluster:
    """The devices of a Dask cluster: each of its workers is a place. Threads may share this object."""

    def __init__(self, client: Client, variants: Sequence[str]) -> None:
        """Takes over a client. Raises UsageError where it has no worker."""
        self.suspects: set[str] = set()
        self.client = client
        self._session = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._children: dict[str, str] = {}
        """Places of the processes, by id."""
        self._resource: str | None = None
        self._dead: set[str] = set()
        """Dask workers that are used no more, since their device can't be opened."""
        self._hosts: set[str] = set()
        """Hosts of the first workers, which were found to be alike; empty before. Workers on other hosts are not used."""
        self._leases: dict[str, Future] = {}
        self._is_closed = False
        self.places = 0
        self._served = time.monotonic()
        workers = self._refresh()
        if not workers:
            raise UsageError("the cluster has no worker; start one with: dask worker ADDRESS --resources GPU=1")
        self._variants = tuple(variants)
        self._names = sorted(workers, key=lambda name: (len(name), name))
        self.places = len(self._names)
        self.jobs = sum(int(worker["nthreads"]) for worker in workers.values())

    @property
    def dashboard(self) -> str | None:
        """The address of the dashboard, None where Dask lacks bokeh to draw one."""
        return (
            str(self.client.dashboard_link) if self.client.run_on_scheduler(importlib.util.find_spec, "bokeh") else None
        )

    def start_all(self, choice: DeviceChoice, *, check_heap: bool) -> list[Worker]:
        """Starts a process at each place. Raises UsageError if two places differ in device or software, or from this machine's sources."""
        with ThreadPoolExecutor(self.places) as threads:
            workers = list(
                threads.map(lambda place: self.start(choice, place=place, check_heap=check_heap), range(self.places))
            )
        first = workers[0].started
        alike = [first, replace(first, place="this machine", sources=sources(str(Path.cwd()), self._variants))]
        for other in workers:
            if (why := difference(alike, other.started)) is not None:
                raise UsageError(
                    f"{why}; a report is of one device and one set of versions and files, in the same folder everywhere"
                )
        self._hosts = {worker["host"] for worker in self._refresh().values()}
        resource = RESOURCES[first.ready.backend]
        for name, worker in self._refresh().items():
            if worker["resources"].get(resource) != 1:
                raise UsageError(
                    f"the Dask worker {name} has the resources {worker['resources']}; expected {resource}=1: start it with "
                    f"--resources {resource}=1"
                )
        self._resource = resource
        return list(workers)

    def start(self, choice: DeviceChoice, *, place: int | None, check_heap: bool) -> RemoteWorker:
        """Starts a process at a place, by default at the one with the fewest for its threads."""
        child = Child(
            session=self._session,
            id=f"{self._session}-{next(self._numbers)}",
            device=choice,
            check_heap=check_heap,
            folder=str(Path.cwd()),
            variants=self._variants,
        )
        for _ in range(MOST_LOST + self.places):
            name = self._reserve(child, place)
            try:
                started = self._submit("start", child, name, None, {}, alone=False)
            except HostLostError:
                continue
            except NothingRunError:
                if self._resource is None:
                    raise
                # It had a device as the session began, which has fallen off the bus.
                self._dead.add(name)
                continue
            return RemoteWorker(self, child, started)
        raise SoftcheckError(f"{MOST_LOST} Dask workers in a row ended while a process was started; see their logs")

    def run(self, worker: RemoteWorker, request: Request, limits: WaitsByName, *, alone: bool) -> TaskAnswer:
        """Runs a request on a worker's process. ``alone`` keeps other requests off the device meanwhile.

        Raises HostLostError if the Dask worker ends, and SoftcheckError if the process can't be started.
        """
        kind = type(request).__name__.removeprefix("Run").lower()
        return self._submit(kind, worker.child, worker.name, request, limits, alone=alone)

    def end(self, worker: RemoteWorker) -> None:
        """Ends a process."""
        with self._lock:
            self._children.pop(worker.child.id, None)
        address = self._addresses.get(worker.name)
        if address is not None and not self._is_closed:
            with contextlib.suppress(Exception):
                self.client.run(end, worker.child.id, workers=[address])

    def number(self, place: str) -> int:
        """The number of a place. A worker that takes an ended one's place under another name gets its number."""
        with self._lock:
            if place not in self._names:
                gone = [i for i, name in enumerate(self._names) if name not in self._addresses]
                self._names.append(place) if not gone else self._names.__setitem__(gone[0], place)
            return self._names.index(place)

    def close(self) -> None:
        """Gives up the workers, whose processes for this session end."""
        self._is_closed = True
        self._leases.clear()
        self.client.close()

    def _refresh(self) -> dict[str, Any]:
        """The Dask workers that there are now, by name. Raises SoftcheckError if there has been none for long."""
        found = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        workers = {
            str(worker["name"]): {**worker, "address": address}
            for address, worker in found.items()
            if not self._hosts or worker["host"] in self._hosts
        }
        with self._lock:
            self._addresses = {name: worker["address"] for name, worker in workers.items()}
            for address in set(self._addresses.values()) - self._leases.keys():
                self._leases[address] = self.client.submit(
                    Lease, self._session, key=f"lease-{uuid.uuid4().hex}", workers=[address], allow_other_workers=False
                )
            without = 0.0 if workers else time.monotonic() - self._served
            if workers:
                self._served = time.monotonic()
        if without > _RETURN_SECONDS:
            raise SoftcheckError(
                f"the cluster has had no worker for {without:.0f} s; see its log, and go on with --resume"
            )
        return workers

    def _reserve(self, child: Child, place: int | None) -> str:
        """The name of the worker on which a child is to be started."""
        while not (workers := self._refresh()):
            time.sleep(0.5)
        workers = {name: worker for name, worker in workers.items() if name not in self._dead}
        if not workers:
            raise SoftcheckError(
                f"no Dask worker has such a device any more: {', '.join(sorted(self._dead))}; see dmesg there"
            )
        with self._lock:
            name = None if place is None else self._names[place]
            if name not in workers:
                taken = list(self._children.values())
                name = min(workers, key=lambda name: (taken.count(name) / workers[name]["nthreads"], name))
            self._children[child.id] = name
        return name

    def _submit(
        self, kind: str, child: Child, name: str, request: Request | None, limits: WaitsByName, *, alone: bool
    ) -> TaskAnswer:
        resources = {} if self._resource is None else {self._resource: 1.0 if alone else _SHARE}
        alike = {other: address for other, address in self._addresses.items() if other not in self._dead}
        # Dask itself never moves a task whose worker has ended: it may leave it waiting for that worker's address.
        where = [alike[name]] if name in alike else list(alike.values())
        future = self.client.submit(
            serve,
            child,
            request,
            limits,
            key=f"{kind}-{uuid.uuid4().hex}",
            workers=where or None,
            allow_other_workers=False,
            resources=resources,
        )
        try:
            answer = self._result(future, where)
        except (KilledWorker, HostLostError):
            if not self._is_closed:
                self._refresh()
            raise HostLostError(f"the worker process ended with its Dask worker, {name}") from None
        except CancelledError:
            if self._is_closed:
                raise SessionClosedError("the session is closed") from None
            raise SoftcheckError("the scheduler was lost, and all requests with it; go on with --resume") from None
        with self._lock:
            if child.id in self._children:
                self._children[child.id] = answer.place
        return answer

    def _result(self, future: Future, where: Sequence[str]) -> TaskAnswer:
        """The result of a task that was done. Raises HostLostError if its worker ended before it was fetched: Dask makes the task again."""
        while True:
            try:
                answer: TaskAnswer = future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                self._refuse_if_lost(future, where)
            else:
                return answer

    def _refuse_if_lost(self, future: Future, where: Sequence[str]) -> None:
        """Raises HostLostError, and cancels the task, if none of the addresses is a worker's any more."""
        if self._is_closed:
            return
        self._refresh()
        if where and set(where).isdisjoint(self._addresses.values()):
            future.cancel()
            raise HostLostError


def difference(alike: Sequence[TaskAnswer], other: TaskAnswer) -> str | None:
    """The device, version or source in which a place differs from others; None if they are alike."""
    theirs = _compared(other)
    for first in alike:
        for field, found in _compared(first).items():
            if found != theirs.get(field):
                where = f"{first.place} has {found}, {other.place} has {theirs.get(field)}"
                return f"the Dask workers differ in {field}: {where}"
    return None


def _compared(answer: TaskAnswer) -> dict[str, Any]:
    """The properties that all workers must share. GPUs of one name differ by a few bytes of memory."""
    ready = {name: getattr(answer.ready, name) for name in answer.ready.__struct_fields__ if name != "memory_bytes"}
    return ready | {f"the source of {name}": digest for name, digest in (answer.sources or {}).items()}


@contextlib.contextmanager
def joined(scheduler: str, variants: Sequence[str], workers: int | None = None) -> Iterator[DaskCluster]:
    """The cluster of a scheduler, named by its address or its file, once it has ``workers`` workers, by default 1.

    Raises UsageError if it does not answer, or its workers don't come in time.
    """
    # Dask tells of each worker that ends, and softcheck makes its requests again.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # Hypothesis warns of numbers that Dask's own threads draw while it draws inputs, on which they have no influence.
    warnings.filterwarnings("ignore", "Do not use the `random` module inside strategies")
    file = scheduler if Path(scheduler).exists() else None
    try:
        client = Client(None if file else scheduler, scheduler_file=file, timeout=_ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--scheduler {scheduler}: no scheduler answered within {_ANSWER_SECONDS:g} s ({error}); expected an address "
            "such as tcp://host:8786, or the file of dask scheduler --scheduler-file"
        ) from None
    with contextlib.closing(client):
        try:
            client.wait_for_workers(workers or 1, timeout=_ANSWER_SECONDS)
        except TimeoutError:
            there = len(client.scheduler_info(n_workers=-1)["workers"])
            raise UsageError(
                f"--scheduler {scheduler} has {there} workers after {_ANSWER_SECONDS:g} s; expected {workers or 1}"
            ) from None
        with contextlib.closing(DaskCluster(client, variants)) as cluster:
            yield cluster
