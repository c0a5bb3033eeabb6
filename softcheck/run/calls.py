"""Calls of a variant that a worker has made, and their repetition in other processes. Imports no torch."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.process import Limits, Worker, WorkerDiedError
from softcheck.run.protocol import Call, Failed, Load, Loaded, Measured, ProbeTask, RunProbe, TrialDone

if TYPE_CHECKING:
    from softcheck.run.pool import Pool

Answer = Measured | TrialDone
"""The answer to one call: a judged case, or the outcome of a trial."""


class FirstCallError(SoftcheckError):
    """The first call of a variant left its process unusable: another process must show what only that call changes."""


def in_trial(task: ProbeTask, index: int, label: str, widest: int | None = None) -> Call:
    """Returns the call of one trial of a probe."""
    request = RunProbe(task=task, trial=index, widest=widest)
    return Call(task.variant, task.dtype, f"probe/{task.probe}/{label}", request)


def make(worker: Worker, call: Call, limits: Limits) -> Answer:
    """Makes a call and returns its answer.

    Raises WorkerDiedError if the call ends the process or ruins its device. Raises TooLittleMemoryError or
    SoftcheckError if the call can't be made.
    """
    worker.calls.append(call)
    found: Answer | None = None
    for reply in worker.ask(call.request, limits):
        if isinstance(reply, Failed):
            raise failure(reply, f"{call.name} on {call.variant}")
        if isinstance(reply, Measured | TrialDone):
            found = reply
    assert found is not None
    return found


def replay(
    pool: "Pool",
    calls: Sequence[Call],
    limits: Limits | None = None,
    *,
    is_loaded_first: bool = True,
    check_heap: bool = False,
) -> Iterator[Answer | WorkerDiedError]:
    """Makes calls in one new process and yields the answers, the last of which may be the end of the process.

    With ``is_loaded_first`` each variant is loaded, and so called once, before its first call. Without ``limits`` a call
    may take the time that its variant has left, and a hang counts towards giving that up. Raises FirstCallError if the
    first call of a variant leaves something behind, so that the next request would be lost, and what ``make`` raises if
    a call can't be made.
    """
    worker = pool.take(fresh=True, check_heap=check_heap)
    try:
        for call in calls:
            if is_loaded_first and call.variant not in worker.loaded:
                worker.loaded.add(call.variant)
                *_, loaded = worker.ask(Load(call.variant, (call.dtype,)), limits or pool.waits)
                if isinstance(loaded, Loaded) and loaded.fatal:
                    raise FirstCallError(f"the first call of {call.variant} left the process unusable")
            yield make(worker, call, limits or pool.waits)
    except WorkerDiedError as died:
        if limits is None:
            pool.bury(worker, died)
        pool.refuse_if_closed()
        yield died
    finally:
        pool.retire(worker)


def failure(failed: Failed, name: str) -> SoftcheckError:
    """Returns the error for a request, named ``name``, that a worker could not carry out."""
    kind = TooLittleMemoryError if failed.for_memory else SoftcheckError
    return kind(f"{name}: {failed.message}")
