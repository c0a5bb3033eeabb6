"""Shows findings again: one that its own call does not show again in a new process is a note. Imports no torch.

One finding of each fault is shown again, a fault being a kind of one variant in one dtype and, of an exception, its type and
place. The call is made alone in a new process, for a probe the whole trial, and up to ``REPEATS`` times there: a race shows in
some calls only. Where that shows nothing, the variant's calls before it in its process are made again in their order, and then the
call: answers that depend on earlier calls are a fault too. What neither shows was something beside the call: memory that another
variant has damaged, or a loaded machine.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.blame import MOST_LOOKS, again_alone, alone, lay
from softcheck.run.blames import Fault
from softcheck.run.calls import Answer, replay
from softcheck.run.pool import Pool, SessionClosedError
from softcheck.run.process import Worker, WorkerDiedError
from softcheck.run.protocol import Call, Measured, Started, TrialDone

REPEATS = 3
"""Calls in a new process, of which one must show a finding again."""

SECONDS = 30.0
"""Seconds that the calls before a call may take when they are made again."""

_RAISED = re.compile(r"(\w+): .* at (\S+:\d+)")
"""The type and the place of an exception, as ``softcheck.calling.call.describe`` writes them."""


@dataclass(slots=True)
class _Heard:
    """The replies to a call so far, and the process that gives them."""

    calls: Sequence[Call] = ()
    """Those that the process had begun, in order, up to this one; none if this one has not begun."""
    loaded: frozenset[str] = frozenset()
    """Variants that had been loaded, and so called once, before."""
    answer: Answer | None = None


def _unshown(pool: Pool, call: Call, violations: Sequence[Violation]) -> dict[Fault, Violation]:
    """Those violations that a call must show again, by their faults: neither declared nor shown before.

    Crashes and timeouts were repeated when they came (``run.blame``).
    """
    found = {_fault(call, violation): violation for violation in reversed(violations)}
    return {
        fault: violation
        for fault, violation in found.items()
        if fault.kind not in (FindingKind.CRASH, FindingKind.TIMEOUT)
        and fault not in pool.blames.shown
        and not pool.is_declared(call, violation)
    }


def _again(pool: Pool, heard: _Heard, first: Answer) -> Answer | WorkerDiedError:
    """Shows the findings of the last call's answer again; returns that if it stands, and else what the call gives alone.

    It stands if its findings all show again, or if the call can't be made again here. Notes in ``pool.blames`` tell
    what did not show.
    """
    call, blames = heard.calls[-1], pool.blames
    missing = _unshown(pool, call, first.result.violations)
    if not missing:
        return first
    is_known = all(blames.fruitless[fault] >= MOST_LOOKS for fault in missing)
    answer = first
    for found in _alone(pool, call, 1 if is_known else REPEATS):
        if found is None or isinstance(found, WorkerDiedError):
            return found or first
        answer = found
        _strike(pool, call, missing, answer)
        if not missing:
            return first
    shown = None if is_known else _after_those_before(pool, heard)
    if shown is not None:
        kinds = ", ".join(fault.kind for fault in missing)
        _strike(pool, call, missing, shown)
        if not missing:
            blames.note(
                call,
                f"{kinds} after the calls before it in its process, and not alone: its answers depend on earlier calls",
            )
            return first
    others = sorted({*heard.loaded, *(one.variant for one in heard.calls)} - {call.variant})
    for fault, violation in missing.items():
        blames.fruitless[fault] += 1
        blames.note(call, f"seen once, not again alone: {violation.kind} ({violation.message})", others)
    return answer


def _fault(call: Call, violation: Violation) -> Fault:
    place = _RAISED.search(violation.message) if violation.kind is FindingKind.RAISED else None
    return Fault(call.variant, call.dtype, violation.kind, "" if place is None else " ".join(place.groups()))


def _strike(pool: Pool, call: Call, missing: dict[Fault, Violation], answer: Answer) -> None:
    """Takes off what an answer shows, which needs not be shown again."""
    for violation in answer.result.violations:
        fault = _fault(call, violation)
        pool.blames.shown.add(fault)
        missing.pop(fault, None)


def _alone(pool: Pool, call: Call, times: int) -> Iterator[Answer | WorkerDiedError | None]:
    """Yields the answers that a call gives in one new process, or the end of that; None if it can't be made there."""
    try:
        for found in replay(pool, [call] * times, is_loaded_first=False):
            answer = (found.reply or found) if isinstance(found, WorkerDiedError) else found
            if isinstance(answer, WorkerDiedError):
                pool.blames.shown.add(Fault(call.variant, "", answer.kind))
                yield answer
                return
            was_made = answer.result.skipped is None or bool(answer.result.violations)
            yield answer if was_made else None
            if not was_made:
                return
    except SessionClosedError:
        raise
    except SoftcheckError:
        yield None


def _after_those_before(pool: Pool, heard: _Heard) -> Answer | None:
    """The answer of a call after those of its variant before it, in a new process; None if it is not got in time."""
    calls = [one for one in heard.calls if one.variant == heard.calls[-1].variant]
    was_loaded = calls[-1].variant in heard.loaded
    if len(calls) == 1 and not was_loaded:
        return None
    until = time.monotonic() + SECONDS
    found: Answer | None = None
    with contextlib.suppress(SoftcheckError):
        for answer in replay(pool, calls, is_loaded_first=was_loaded):
            if isinstance(answer, WorkerDiedError) or time.monotonic() > until:
                return None
            found = answer
        return found
    return None


_CAUSED_FROM_AFAR = (FindingKind.RAISED, FindingKind.STATE_CHANGED)
"""Findings in a variant's call that another variant may have caused, by a write beyond its memory or by a thread, if it
ran in the process before. What is left of that process may not serve another call."""


def answered(pool: Pool, call: Call, name: str) -> Answer | WorkerDiedError:
    """Makes a call and returns its answer.

    Where it ends its worker, or a finding does not show again, that is what the same call gives alone. Raises SoftcheckError, with ``name``, if the call can't be made.
    """
    worker = pool.take(call.variant)
    while True:
        heard = _Heard()
        try:
            _ask(pool, worker, call, name, heard)
        except WorkerDiedError as died:
            if heard.answer is None and heard.calls:
                return again_alone(pool, worker, call, died)
            if heard.answer is None and not worker.calls:
                # Nothing has run in this process: what is asked for is to blame, and would end the next process too.
                raise SoftcheckError(f"{name}: {died}") from None
            lay(pool, worker.calls, died)
        except (SessionClosedError, TooLittleMemoryError):
            raise
        except SoftcheckError:
            if heard.answer is not None or not heard.calls:
                raise
            # Memory that an earlier call has damaged may fail softcheck itself.
            return alone(pool, call)
        if heard.answer is not None:
            return _again(pool, heard, heard.answer)
        # The calls before it have ended the worker.
        worker = pool.take(fresh=True)


def _ask(pool: Pool, worker: Worker, call: Call, name: str, heard: _Heard) -> None:
    """Asks a worker for a call, and keeps what is ``heard`` as soon as it is there."""
    for reply in pool.ask(worker, call.request, name):
        if isinstance(reply, Started):
            worker.calls.append(call)
            heard.calls, heard.loaded = tuple(worker.calls), frozenset(worker.loaded)
        elif isinstance(reply, Measured | TrialDone):
            heard.answer = reply
            found = _unshown(pool, call, reply.result.violations)
            worker.is_doubted |= len(worker.served) > 1 and any(f.kind in _CAUSED_FROM_AFAR for f in found)
