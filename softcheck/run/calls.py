"""Calls of a variant that a worker has made, and their repetition in other processes. Imports no torch."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.process import Waits, Worker, WorkerDiedError
from softcheck.run.protocol import Call, Failed, Load, Loaded, Measured, ProbePlanned, ProbeTask, RunProbe, TrialDone

if TYPE_CHECKING:
    from softcheck.run.pool import Pool

Answer = Measured | TrialDone
"""The answer to one call: a judged case, or the outcome of a trial."""

Limit = float | Callable[[], Waits]


class FirstCallError(SoftcheckError):
    """The first call of a variant left its process unusable: another process must show what only that call changes."""


def load(worker: Worker, call: Call, seconds: Limit) -> None:
    """Loads a call's variant, which calls it once, as every command does first. Raises WorkerDiedError if the process ends.

    Raises FirstCallError if the call leaves something behind, so that the next request would be lost.
    """
    worker.loaded.add(call.variant)
    for reply in worker.ask(Load(call.variant, (call.dtype,)), seconds):
        if isinstance(reply, Loaded) and reply.fatal:
            raise FirstCallError(f"the first call of {call.variant} left the process unusable")


def in_trial(task: ProbeTask, index: int, label: str, widest: int | None = None) -> Call:
    """Returns the call of one trial of a probe."""
    request = RunProbe(task=task, trial=index, widest=widest)
    return Call(task.variant, task.dtype, f"probe/{task.probe}/{label}", request)


def trials_of(worker: Worker, task: ProbeTask, seconds: Limit) -> list[Call]:
    """Returns the calls of all trials that a probe plans; raises WorkerDiedError as ``make`` does."""
    planned = [reply for reply in worker.ask(RunProbe(task=task), seconds) if isinstance(reply, ProbePlanned)]
    return [in_trial(task, index, label) for reply in planned for index, label in enumerate(reply.labels)]


def make(worker: Worker, call: Call, seconds: Limit) -> Answer:
    """Makes a call and returns its answer.

    Raises WorkerDiedError if the call ends the process or ruins its device. Raises TooLittleMemoryError or
    SoftcheckError if the call can't be made.
    """
    worker.calls.append(call)
    found: Answer | None = None
    for reply in worker.ask(call.request, seconds):
        if isinstance(reply, Failed):
            raise failure(reply, f"{call.name} on {call.variant}")
        if isinstance(reply, Measured | TrialDone):
            found = reply
    assert found is not None
    return found


@contextlib.contextmanager
def fresh(pool: "Pool", *, check_heap: bool = False) -> Iterator[Worker]:
    """A new worker for one purpose, ended after it."""
    worker = pool.take(fresh=True, check_heap=check_heap)
    try:
        yield worker
    finally:
        pool.retire(worker)


def replay(
    pool: "Pool",
    calls: Sequence[Call],
    seconds: Callable[[Call], Limit] | None = None,
    *,
    is_loaded_first: bool = True,
    check_heap: bool = False,
    counts: bool = False,
) -> Iterator[Answer | WorkerDiedError]:
    """Makes calls in one new process and yields the answers, the last of which may be the end of the process.

    With ``is_loaded_first`` each variant is loaded, and so called once, before its first call. With ``counts``, a hang counts
    towards giving a variant up. ``seconds`` are what each call may take, by default those that its variant has left. Raises what ``load`` and ``make`` raise if a call can't be made.
    """
    with fresh(pool, check_heap=check_heap) as worker:
        try:
            for call in calls:
                limit: Limit = partial(pool.waits, call.variant) if seconds is None else seconds(call)
                if is_loaded_first and call.variant not in worker.loaded:
                    load(worker, call, limit)
                yield make(worker, call, limit)
        except WorkerDiedError as died:
            if counts:
                pool.bury(worker, died)
            pool.refuse_if_closed()
            yield died


def failure(failed: Failed, name: str) -> SoftcheckError:
    """Returns the error for a request, named ``name``, that a worker could not carry out."""
    kind = TooLittleMemoryError if failed.for_memory else SoftcheckError
    return kind(f"{name}: {failed.message}")
