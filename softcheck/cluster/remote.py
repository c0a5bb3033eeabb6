"""A worker process on a device of a cluster, as the pool sees it: asked by a task of Dask. Imports no torch."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from softcheck.cluster.host import Child, TaskAnswer
from softcheck.errors import SoftcheckError
from softcheck.run.process import Limits, Waits, Worker, WorkerDiedError, first_running, named_in
from softcheck.run.protocol import (
    Done,
    Load,
    Reply,
    Request,
    RunCase,
    RunDomain,
    RunProbe,
    Started,
    Time,
)

if TYPE_CHECKING:
    from softcheck.cluster.dask import DaskCluster

MOST_LOST = 4
"""Dask workers that may end under one request before its variant is held to have ended them: the first ones beside other
requests, any of which may be the cause, and from the ``_SHARED``-th on alone on a device."""

_SHARED = 2

WaitsByName = dict[str | None, Waits]
"""Limits of a request's variants, and those of softcheck's own work under None."""


class HostLostError(SoftcheckError):
    """Raised if the Dask worker ended on which a request ran, and its processes with it."""


class RemoteWorker(Worker):
    """A worker process on a device of a cluster. Not thread-safe: one thread owns it.

    All replies to a request come at once. Where the Dask worker ends meanwhile, none has come, and
    the request is made again in a new process.
    """

    def __init__(self, cluster: "DaskCluster", child: Child, started: TaskAnswer) -> None:
        """Takes over a child that a task has started."""
        self._cluster = cluster
        self.child = child
        self.started = started
        self._is_over = False
        self.moved(started)

    def moved(self, answer: TaskAnswer) -> None:
        """Sets the record of a process that has just started."""
        self.begin(answer.ready)
        self.place = self._cluster.number(answer.place)
        self.name = answer.place

    def ask(self, request: Request, limits: Limits) -> Iterator[Reply]:
        """As ``Worker.ask``; limits are asked for once for each variant of the request, before it is sent."""
        request = self.informed(request)
        for reply in self._replies(request, {name: limits(name) for name in (*named_in(request), None)}):
            self.note(reply)
            yield reply

    def close(self) -> None:
        """Ends the process."""
        if not self._is_over:
            self._is_over = True
            self._cluster.end(self)

    def _replies(self, request: Request, limits: WaitsByName, lost: int = 0) -> Iterator[Reply]:
        """The replies to a request, which is made again where a Dask worker has ended under it."""
        names = named_in(request)
        is_trial = isinstance(request, RunProbe) and request.trial is not None
        calls = is_trial or not (isinstance(request, RunProbe) or (isinstance(request, Load) and not request.is_called))
        is_suspect = calls and len(names) == 1 and not self._cluster.suspects.isdisjoint(names)
        while True:
            try:
                alone = isinstance(request, Time) or lost >= _SHARED or is_suspect
                answer = self._cluster.run(self, request, limits, alone=alone)
            except HostLostError as error:
                lost += 1
                is_over = lost >= MOST_LOST or is_suspect
                if not (is_over and is_trial):
                    # None of the calls before is to blame: this request is repeated in new processes.
                    self.calls.clear()
                if not is_over:
                    continue
                if isinstance(request, Load) and request.is_called:
                    # It may be a variant all the same.
                    declared = list(self._replies(replace(request, is_called=False), limits))
                    yield from (reply for reply in declared if not isinstance(reply, Done))
                    if not isinstance(declared[-1], Done):
                        return
                if is_trial or isinstance(request, RunCase | RunDomain):
                    yield Started(names[0])
                self._give_up(names, f"{error}{f', as did {lost} in a row under this call' if lost > 1 else ''}")
            yield from self._taken_over(answer, request)
            return

    def _taken_over(self, answer: TaskAnswer, request: Request) -> Iterator[Reply]:
        if answer.sources is not None:
            kept = set() if isinstance(request, RunCase) else {n for n in named_in(request) if n in self.loaded}
            self.moved(answer)
            self.loaded = kept
        self.running = first_running(request)
        yield from answer.replies
        if answer.death is not None:
            raise answer.death

    def _give_up(self, names: Sequence[str], message: str) -> NoReturn:
        self.running = names[0] if len(names) == 1 else None
        if self.running is not None:
            self._cluster.suspects.add(self.running)
            self.loaded = {self.running}
        raise WorkerDiedError(message, is_of_host=True)
