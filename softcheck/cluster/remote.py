"""A worker process on a device of a cluster, as the pool sees it: asked by a task of Dask. Imports no torch."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from softcheck.cluster.host import Child, Death, TaskAnswer
from softcheck.errors import SoftcheckError
from softcheck.run.process import DeviceRuinedError, Waits, Worker, WorkerDiedError, first_running, waits
from softcheck.run.protocol import Done, Measured, Reply, Request, RunCase, Time, TrialDone, decode_reply

MOST_LOST = 4
"""Dask workers that may end under one request before its variant is held to have ended them: the first ones beside other
requests, any of which may be the cause, and from the ``_SHARED``-th on alone on a device."""

_SHARED = 2


class HostLostError(SoftcheckError):
    """Raised if the Dask worker ended on which a request ran, and its processes with it."""


class Tasks(Protocol):
    """The cluster, as a worker's owner uses it."""

    suspects: set[str]
    """Variants alone under which Dask workers have ended."""

    def run(
        self, worker: "RemoteWorker", request: Request, limits: dict[str | None, Waits], *, alone: bool
    ) -> TaskAnswer:
        """Runs a request on the worker's process. ``alone`` keeps other requests off the device meanwhile.

        Raises HostLostError if the Dask worker ends, and SoftcheckError if the process can't be started.
        """

    def interrupt(self, worker: "RemoteWorker") -> None:
        """Asks a process to end its request early."""

    def end(self, worker: "RemoteWorker") -> None:
        """Ends a process."""

    def number(self, place: str) -> int:
        """The number of a place."""


class RemoteWorker(Worker):
    """A worker process on a device of a cluster. Not thread-safe: one thread owns it.

    All replies to a request come at once. Where the Dask worker ends meanwhile, none has come, and the request is made
    again in a new process.
    """

    def __init__(self, tasks: Tasks, child: Child, started: TaskAnswer) -> None:
        """Takes over a child that a task has started."""
        self._tasks = tasks
        self.child = child
        self._is_over = False
        self.moved(started)

    def moved(self, answer: TaskAnswer) -> None:
        """Sets the record of a process that has just started."""
        self.begin(answer.ready)
        self.place = self._tasks.number(answer.place)
        self.name = answer.place

    def ask(self, request: Request, seconds: float | Callable[[], Waits]) -> Iterator[Reply]:
        """As ``Worker.ask``; ``seconds`` are asked once for each variant of the request, before it is sent."""
        limits = self._limits(request, seconds)
        for answer in self._answers(request, limits):
            if answer.is_new:
                loaded = self.loaded
                self.moved(answer)
                self.loaded = loaded & {first_running(request)} if not isinstance(request, RunCase) else set()
            self.running = first_running(request)
            replies = [decode_reply(reply) for reply in answer.replies]
            for reply in replies:
                self.note(reply)
                yield reply
            if answer.death is not None:
                self._is_over = True
                raise _error(answer.death)

    def interrupt(self) -> None:
        """As ``Worker.interrupt``."""
        self._tasks.interrupt(self)

    def close(self) -> None:
        """Ends the process."""
        if not self._is_over:
            self._is_over = True
            self._tasks.end(self)

    def _limits(self, request: Request, seconds: float | Callable[[], Waits]) -> dict[str | None, Waits]:
        limits: dict[str | None, Waits] = {}
        for name in (*_variants(request), None):
            self.running = name
            limits[name] = waits(seconds) if isinstance(seconds, int | float) else seconds()
        return limits

    def _answers(self, request: Request, limits: dict[str | None, Waits], lost: int = 0) -> Iterator[TaskAnswer]:
        """The answers to a request, or to its parts where a Dask worker has ended under the whole."""
        names = _variants(request)
        is_suspect = not self._tasks.suspects.isdisjoint(names) and len(names) == 1
        while True:
            try:
                alone = isinstance(request, Time) or lost >= _SHARED or is_suspect
                yield self._tasks.run(self, request, limits, alone=alone)
            except HostLostError as error:
                lost += 1
                if isinstance(request, RunCase) and len(names) > 1:
                    yield from self._one_by_one(request, limits, lost)
                elif lost >= MOST_LOST or is_suspect:
                    self.running = first_running(request) or (names[0] if len(names) == 1 else None)
                    if self.running is not None:
                        self._tasks.suspects.add(self.running)
                    self._is_over = True
                    # None of the calls before this request is to blame: it was repeated in new processes.
                    self.calls.clear()
                    message = f"{error}; {lost} Dask workers in a row ended under this request"
                    raise WorkerDiedError(message, timed_out=False, is_of_host=True) from None
                else:
                    continue
            return

    def _one_by_one(self, request: RunCase, limits: dict[str | None, Waits], lost: int) -> Iterator[TaskAnswer]:
        for name in request.variants:
            is_last = name == request.variants[-1]
            part = msgspec.structs.replace(request, variants=(name,))
            for answer in self._answers(part, limits, lost):
                ends = is_last or answer.death is not None or not isinstance(decode_reply(answer.replies[-1]), Done)
                yield answer if ends else dataclasses.replace(answer, replies=answer.replies[:-1])
                if ends:
                    return


def _variants(request: Request) -> tuple[str, ...]:
    first = first_running(request)
    return (first,) if first is not None else getattr(request, "variants", ())


def _error(death: Death) -> WorkerDiedError:
    if death.reply is not None:
        reply = decode_reply(death.reply)
        assert isinstance(reply, Measured | TrialDone)
        return DeviceRuinedError(death.message, reply)
    return WorkerDiedError(
        death.message,
        timed_out=death.timed_out,
        waited=death.waited,
        was_preparing=death.was_preparing,
        is_early=death.is_early,
    )
