"""Calls of a variant that a worker has made, and the repetition of one of them. Imports no torch."""

from collections.abc import Callable, Sequence

import msgspec

from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.process import Waits, Worker
from softcheck.run.protocol import Call, Failed, Load, Loaded, Measured, RunCase, RunProbe, TrialDone


class FirstCallError(SoftcheckError):
    """The first call of a variant left its process unusable: another process must show what only that call changes."""


def on_case(request: RunCase, variant: str) -> Call:
    """Returns the call of one of a request's variants on its case."""
    case = request.case
    return Call(variant, case.dtype, case.id, msgspec.structs.replace(request, variants=(variant,)))


def in_trial(request: RunProbe, index: int, label: str) -> Call:
    """Returns the call of one trial of a probe."""
    alone = msgspec.structs.replace(request, done=(), only=(index,))
    return Call(request.variant, request.dtype, f"probe/{request.probe}/{label}", alone)


def load(worker: Worker, variant: str, dtypes: Sequence[str], seconds: float | Callable[[], Waits]) -> None:
    """Loads a variant, which calls it once, as every command does first. Raises WorkerDiedError if the process ends.

    Raises FirstCallError if the call leaves something behind, so that the next request would be lost.
    """
    worker.loaded.add(variant)
    for reply in worker.ask(Load(variant, tuple(dtypes)), seconds):
        if isinstance(reply, Loaded) and reply.fatal:
            raise FirstCallError(f"the first call of {variant} left the process unusable")


def make(worker: Worker, call: Call, seconds: float | Callable[[], Waits]) -> Measured | TrialDone | None:
    """Makes a call and returns its answer; None for a whole probe.

    Raises WorkerDiedError if the call ends the process or ruins its device. Raises TooLittleMemoryError or
    SoftcheckError if the call can't be made.
    """
    worker.calls.append(call)
    found: Measured | TrialDone | None = None
    for reply in worker.ask(call.request, seconds):
        if isinstance(reply, Failed):
            raise failure(reply, f"{call.name} on {call.variant}")
        if isinstance(reply, Measured | TrialDone):
            found = reply
    return found


def failure(failed: Failed, name: str) -> SoftcheckError:
    """Returns the error for a request, named ``name``, that a worker could not carry out."""
    kind = TooLittleMemoryError if failed.for_memory else SoftcheckError
    return kind(f"{name}: {failed.message}")
