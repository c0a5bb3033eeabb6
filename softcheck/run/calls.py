"""Calls of a variant that a worker has made, and the repetition of one of them. Imports no torch."""

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
        """The last answer. It tells more of the crash than the message does, such as the sizes of the trial."""


def on_case(request: RunCase, variant: str) -> Call:
    """Returns the call of one of a request's variants on its case."""
    case = request.case
    return Call(variant, case.dtype, case.id, RunCase(case, (variant,), request.first_rows))


def in_trial(request: RunProbe, index: int, label: str) -> Call:
    """Returns the call of one trial of a probe."""
    alone = msgspec.structs.replace(request, done=(), only=index)
    return Call(request.variant, request.dtype, f"probe/{request.probe}/{label}", alone)


def load(worker: Worker, variant: str, dtypes: Sequence[str], seconds: float | Callable[[], Waits]) -> None:
    """Loads a variant, which calls it once, as every command does first. Raises WorkerDiedError if the process ends."""
    worker.loaded.add(variant)
    for reply in worker.ask(Load(variant, tuple(dtypes)), until=(Loaded, Refused, Failed), seconds=seconds):
        if isinstance(reply, Loaded) and reply.fatal:
            # Another process must show what only the first call changes; here the next request would be lost.
            raise WorkerDiedError("the first call left the process unusable", timed_out=False)


def make(worker: Worker, call: Call, seconds: float | Callable[[], Waits]) -> Measured | TrialDone | None:
    """Makes a call and returns its answer; None for a whole probe.

    Raises WorkerDiedError if the call ends the process or ruins its device. Raises TooLittleMemoryError or
    SoftcheckError if the call can't be made.
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
    """True if the worker ends after this reply."""
    return reply.fatal if isinstance(reply, Measured) else reply.outcome.fatal


def refuse_ruin(reply: Measured | TrialDone) -> None:
    """Raises DeviceRuinedError if a reply reports a crash that the process outlived but can't continue after.

    An illegal access on a GPU ends this way.
    """
    violations = reply.measurement.violations if isinstance(reply, Measured) else reply.outcome.violations
    for violation in violations if is_fatal(reply) else ():
        if violation.kind is FindingKind.CRASH:
            raise DeviceRuinedError(violation.message.removesuffix("; expected an output"), reply)
