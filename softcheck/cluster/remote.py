"""A worker process on a device of a cluster, as the pool sees it: asked by a task of Dask. Imports no torch."""

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NoReturn, Protocol

from msgspec.structs import replace

from softcheck.cluster.host import Child, Death, TaskAnswer
from softcheck.errors import SoftcheckError
from softcheck.run.process import DeviceRuinedError, Waits, Worker, WorkerDiedError, first_running, named_in, waits
from softcheck.run.protocol import (
    Done,
    Load,
    Measured,
    ProbePlanned,
    Reply,
    Request,
    RunCase,
    RunProbe,
    Time,
    TrialDone,
    TrialStarted,
    decode_reply,
    encode_reply,
)

MOST_LOST = 4
"""Dask workers that may end under one request before its variant is held to have ended them: the first ones beside other
requests, any of which may be the cause, and from the ``_SHARED``-th on alone on a device."""

_SHARED = 2


_Answers = Iterator[TaskAnswer | bytes]


class HostLostError(SoftcheckError):
    """Raised if the Dask worker ended on which a request ran, and its processes with it."""


class Tasks(Protocol):
    """The cluster, as a worker's owner uses it."""

    suspects: set[str]
    """Variants alone under which Dask workers have ended."""

    def run(
        self, worker: "RemoteWorker", request: Request, limits: dict[str | None, Waits], *, alone: bool
    ) -> TaskAnswer:
        """Runs a request on the worker's process and returns the answer. ``alone`` keeps other requests off the device meanwhile.

        Raises HostLostError if the Dask worker ends, and SoftcheckError if the process can't be started.
        """

    def end(self, worker: "RemoteWorker") -> None:
        """Ends a process."""

    def number(self, place: str) -> int:
        """The number of a place."""


class RemoteWorker(Worker):
    """A worker process on a device of a cluster. Not thread-safe: one thread owns it.

    All replies to a request come at once. Where the Dask worker ends meanwhile, none has come, and
    the request is made again in a new process.
    """

    def __init__(self, tasks: Tasks, child: Child, started: TaskAnswer) -> None:
        """Takes over a child that a task has started."""
        self._tasks = tasks
        self.child = child
        self.started = started
        self._is_over = False
        self.moved(started)

    def moved(self, answer: TaskAnswer) -> None:
        """Sets the record of a process that has just started."""
        self.begin(answer.ready)
        self.place = self._tasks.number(answer.place)
        self.name = answer.place

    def ask(self, request: Request, seconds: float | Callable[[], Waits]) -> Iterator[Reply]:
        """As ``Worker.ask``; ``seconds`` are asked once for each variant of the request, before it is sent."""
        request = self.informed(request)
        limits = self._limits(request, seconds)
        for answer in self._answers(request, limits):
            if isinstance(answer, bytes):
                yield decode_reply(answer)
                continue
            if answer.sources is not None:
                loaded = self.loaded
                self.moved(answer)
                self.loaded = loaded & {first_running(request)} if not isinstance(request, RunCase) else set()
            self.running = first_running(request)
            replies = [decode_reply(reply) for reply in answer.replies]
            for reply in replies:
                self.note(reply)
                yield reply
            if answer.death is not None:
                raise _error(answer.death)

    def close(self) -> None:
        """Ends the process."""
        if not self._is_over:
            self._is_over = True
            self._tasks.end(self)

    def _limits(self, request: Request, seconds: float | Callable[[], Waits]) -> dict[str | None, Waits]:
        limits: dict[str | None, Waits] = {}
        for name in (*named_in(request), None):
            self.running = name
            limits[name] = waits(seconds) if isinstance(seconds, int | float) else seconds()
        return limits

    def _answers(self, request: Request, limits: dict[str | None, Waits], lost: int = 0) -> _Answers:
        """The answers to a request, or to its parts where a Dask worker has ended under the whole."""
        names = named_in(request)
        trial = request.only if isinstance(request, RunProbe) else None
        calls = trial != () and not (isinstance(request, Load) and not request.is_called)
        is_suspect = calls and len(names) == 1 and not self._tasks.suspects.isdisjoint(names)
        while True:
            if trial:
                yield encode_reply(TrialStarted(trial[0]))
            try:
                alone = isinstance(request, Time) or lost >= _SHARED or is_suspect
                yield self._tasks.run(self, request, limits, alone=alone)
            except HostLostError as error:
                lost += 1
                is_over = lost >= MOST_LOST or is_suspect
                if not (is_over and trial):
                    # None of the calls before is to blame: this request is repeated in new processes.
                    self.calls.clear()
                if isinstance(request, RunCase) and len(names) > 1:
                    yield from self._one_by_one(request, limits, lost)
                elif isinstance(request, RunProbe) and trial is None and (lost >= _SHARED or is_suspect):
                    yield from self._trial_by_trial(request, limits, lost)
                elif is_over:
                    declares = isinstance(request, Load) and request.is_called
                    if declares and not (yield from self._part(replace(request, is_called=False), limits)):
                        return
                    self._give_up(names, f"{error}{f', as did {lost} in a row under this call' if lost > 1 else ''}")
                else:
                    continue
            return

    def _give_up(self, names: Sequence[str], message: str) -> NoReturn:
        self.running = names[0] if len(names) == 1 else None
        if self.running is not None:
            self._tasks.suspects.add(self.running)
            self.loaded = {self.running}
        raise WorkerDiedError(message, timed_out=False, is_of_host=True)

    def _one_by_one(self, request: RunCase, limits: dict[str | None, Waits], lost: int) -> _Answers:
        for name in request.variants:
            part = replace(request, variants=(name,))
            if not (yield from self._part(part, limits, lost, is_last=name == request.variants[-1])):
                return

    def _trial_by_trial(self, request: RunProbe, limits: dict[str | None, Waits], lost: int) -> _Answers:
        """Plans, makes each trial in a request of its own, so that the one which ends Dask workers is known, and concludes."""
        outcomes = list(request.done)
        planned = yield from self._part(replace(request, only=()), limits)
        labels = [label for reply in planned if isinstance(reply, ProbePlanned) for label in reply.labels]
        for index in range(len(outcomes), len(labels)):
            made = yield from self._part(replace(request, done=(), only=(index,)), limits, lost)
            if not made:
                return
            outcomes += [reply.outcome for reply in made if isinstance(reply, TrialDone)]
        if planned:
            yield from self._answers(replace(request, done=tuple(outcomes)), limits)

    def _part(
        self, request: Request, limits: dict[str | None, Waits], lost: int = 0, *, is_last: bool = False
    ) -> Generator[TaskAnswer | bytes, None, list[Reply]]:
        """The answer to a part of a request, without its end unless it ``is_last``. Returns its replies if others may follow."""
        for answer in self._answers(request, limits, lost):
            if isinstance(answer, bytes):
                yield answer
                continue
            replies = [decode_reply(reply) for reply in answer.replies]
            ends = is_last or answer.death is not None or not isinstance(replies[-1], Done)
            yield answer if ends else dataclasses.replace(answer, replies=answer.replies[:-1])
            return [] if ends else replies
        return []


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
