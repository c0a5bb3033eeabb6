"""Calls of a variant that a worker has made, and their repetition in other processes. Imports no torch."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.process import Waits, Worker
from softcheck.run.protocol import Call, Failed, Load, Loaded, Measured, Probed, RunProbe, TrialDone

if TYPE_CHECKING:
    from softcheck.run.pool import Pool

Answer = Measured | TrialDone
"""The answer to one call: a judged case, or the outcome of a trial."""

Limit = float | Callable[[], Waits]


class FirstCallError(SoftcheckError):
    """The first call of a variant left its process unusable: another process must show what only that call changes."""


def in_trial(request: RunProbe, index: int, label: str) -> Call:
    """Returns the call of one trial of a probe."""
    alone = msgspec.structs.replace(request, done=(), only=(index,))
    return Call(request.variant, request.dtype, f"probe/{request.probe}/{label}", alone)


def load(worker: Worker, call: Call, seconds: Limit) -> None:
    """Loads a call's variant, which calls it once, as every command does first. Raises WorkerDiedError if the process ends.

    Raises FirstCallError if the call leaves something behind, so that the next request would be lost.
    """
    worker.loaded.add(call.variant)
    for reply in worker.ask(Load(call.variant, (call.dtype,)), seconds):
        if isinstance(reply, Loaded) and reply.fatal:
            raise FirstCallError(f"the first call of {call.variant} left the process unusable")


def make(worker: Worker, call: Call, seconds: Limit) -> Answer | Probed | None:
    """Makes a call and returns its answer; of a whole probe its conclusion, None if it comes to none.

    Raises WorkerDiedError if the call ends the process or ruins its device. Raises TooLittleMemoryError or
    SoftcheckError if the call can't be made.
    """
    worker.calls.append(call)
    found: Answer | Probed | None = None
    for reply in worker.ask(call.request, seconds):
        if isinstance(reply, Failed):
            raise failure(reply, f"{call.name} on {call.variant}")
        if isinstance(reply, Measured | TrialDone | Probed):
            found = reply
    return found


def make_in_order(
    worker: Worker, calls: Sequence[Call], seconds: Callable[[Call], Limit]
) -> Iterator[Answer | Probed | None]:
    """Makes calls in one process, each variant loaded before its first one, and yields the answers; raises what ``make`` does."""
    for call in calls:
        if call.variant not in worker.loaded:
            load(worker, call, seconds(call))
        yield make(worker, call, seconds(call))


@contextlib.contextmanager
def fresh(pool: "Pool", *, check_heap: bool = False) -> Iterator[Worker]:
    """A new worker for one purpose, ended after it."""
    worker = pool.take_checked() if check_heap else pool.take(fresh=True)
    try:
        yield worker
    finally:
        pool.retire(worker)


def failure(failed: Failed, name: str) -> SoftcheckError:
    """Returns the error for a request, named ``name``, that a worker could not carry out."""
    kind = TooLittleMemoryError if failed.for_memory else SoftcheckError
    return kind(f"{name}: {failed.message}")
