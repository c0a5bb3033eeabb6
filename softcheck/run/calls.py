"""Calls of a variant that a worker has made, and making one of them again. Imports no torch."""

from collections.abc import Callable, Sequence

import msgspec

from softcheck.contract import FindingKind
from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.process import Waits, Worker, WorkerDiedError
from softcheck.run.protocol import (
    Call,
    Done,
    Failed,
    Load,
    Loaded,
    Measured,
    Probed,
    Refused,
    RunCase,
    RunProbe,
    TrialDone,
)


class DeviceRuinedError(WorkerDiedError):
    """The device can't be used any more in a worker's process, though the process itself still answered."""

    def __init__(self, message: str, reply: Measured | TrialDone) -> None:
        super().__init__(message, timed_out=False)
        self.reply = reply
        """The last answer, which tells more of the crash than the message: at which sizes of a trial, say."""


def on_case(request: RunCase, variant: str) -> Call:
    """The call of one of a request's variants on its case."""
    case = request.case
    return Call(variant, case.dtype, case.id, RunCase(case, (variant,), request.first_rows))


def in_trial(request: RunProbe, index: int, label: str) -> Call:
    """One trial of a probe."""
    alone = msgspec.structs.replace(request, done=(), only=index)
    return Call(request.variant, request.dtype, f"probe/{request.probe}/{label}", alone)


def load(worker: Worker, variant: str, dtypes: Sequence[str], seconds: float | Callable[[], Waits]) -> None:
    """Loads a variant, which calls it once, as every command does first. Raises WorkerDiedError where that ends the process."""
    worker.loaded.add(variant)
    for reply in worker.ask(Load(variant, tuple(dtypes)), until=(Loaded, Refused, Failed), seconds=seconds):
        if isinstance(reply, Loaded) and reply.fatal:
            # What only the first call changes is for another process to show; here the next request would be lost.
            raise WorkerDiedError("the first call left the process unusable", timed_out=False)


def make(worker: Worker, call: Call, seconds: float | Callable[[], Waits]) -> Measured | TrialDone | None:
    """Makes a call and returns what came of it; None for a whole probe.

    Raises WorkerDiedError where it ends the process or ruins its device, TooLittleMemoryError or SoftcheckError where it can't
    be made.
    """
    worker.calls.append(call)
    found: Measured | TrialDone | None = None
    for reply in worker.ask(call.request, until=(Done, Probed, Failed), seconds=seconds):
        if isinstance(reply, Failed):
            kind = TooLittleMemoryError if reply.for_memory else SoftcheckError
            raise kind(f"{call.name} on {call.variant}: {reply.message}")
        if isinstance(reply, Measured | TrialDone):
            refuse_ruin(reply)
            found = reply
            if is_fatal(reply):
                break
    return found


def is_fatal(reply: Measured | TrialDone) -> bool:
    """Whether the worker ends after this reply."""
    return reply.fatal if isinstance(reply, Measured) else reply.outcome.fatal


def refuse_ruin(reply: Measured | TrialDone) -> None:
    """Raises DeviceRuinedError where a reply tells of a crash that the process outlived but can't go on after.

    That is how an illegal access on a GPU ends.
    """
    violations = reply.measurement.violations if isinstance(reply, Measured) else reply.outcome.violations
    for violation in violations if is_fatal(reply) else ():
        if violation.kind is FindingKind.CRASH:
            raise DeviceRuinedError(violation.message.removesuffix("; expected an output"), reply)
