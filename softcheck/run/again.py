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
from softcheck.errors import SoftcheckError
from softcheck.run.blame import Answer, fresh, kind_of
from softcheck.run.blames import Fault
from softcheck.run.calls import load, make
from softcheck.run.pool import Pool, SessionClosedError
from softcheck.run.process import DeviceRuinedError, Worker, WorkerDiedError
from softcheck.run.protocol import Call, Measured, TrialDone

REPEATS = 3
"""Calls in a new process, of which one must show a finding again."""

MOST_LOOKS = 3
"""Findings of one fault that nothing shows again, after which others get one call alone each."""

SECONDS = 30.0
"""Seconds that the calls before a call may take when they are made again."""

_RAISED = re.compile(r"(\w+): .* at (\S+:\d+)")
"""The type and the place of an exception, as ``softcheck.calling.call.describe`` writes them."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A call whose result has findings, and the calls of its variant that its process had served before."""

    call: Call
    violations: tuple[Violation, ...]
    before: tuple[Call, ...]
    was_loaded: bool
    """True if the variant had been loaded, and so called once, before all others."""
    others: tuple[str, ...]
    """Other variants that the process had served."""

    @classmethod
    def of(cls, worker: Worker, place: int, violations: Sequence[Violation]) -> "Sighting":
        """The sighting of a call by its place among those of its process."""
        call = worker.calls[place]
        before = tuple(one for one in worker.calls[:place] if one.variant == call.variant)
        others = tuple(sorted(worker.served - {call.variant}))
        return cls(call, tuple(violations), before, call.variant in worker.loaded, others)


def unshown(pool: Pool, call: Call, violations: Sequence[Violation]) -> dict[Fault, Violation]:
    """Those violations that a call must show again, by their faults: neither declared nor shown before.

    Crashes and timeouts were repeated when they came (``run.blame``).
    """
    declared = pool.blames.declarations.get(call.variant)
    found = {_fault(call, violation): violation for violation in reversed(violations)}
    return {
        fault: violation
        for fault, violation in found.items()
        if fault.kind not in (FindingKind.CRASH, FindingKind.TIMEOUT)
        and not pool.blames.is_shown(fault)
        and (declared is None or declared.explanation(violation, call.name, call.dtype, pool.ready.backend) is None)
    }


def again(pool: Pool, seen: Sighting, expected: type[Answer]) -> Answer | WorkerDiedError | None:
    """Shows the findings of a call again; returns None if the result stands, and else the answer that the call gives alone.

    A result stands whose findings all show again, or whose call can't be made again here. Notes in ``pool.blames`` tell what did not
    show.
    """
    call, blames = seen.call, pool.blames
    missing = unshown(pool, call, seen.violations)
    if not missing:
        return None
    is_known = all(blames.fruitless(fault) >= MOST_LOOKS for fault in missing)
    answer: Answer | WorkerDiedError | None = None
    for answer in _alone(pool, call, expected, 1 if is_known else REPEATS):
        if answer is None:
            return None
        if isinstance(answer, WorkerDiedError):
            return answer
        _strike(pool, call, missing, answer)
        if not missing:
            return None
    shown = None if is_known else _after_those_before(pool, seen)
    if shown is not None:
        kinds = ", ".join(fault.kind for fault in missing)
        _strike(pool, call, missing, shown)
        if not missing:
            blames.note(
                f"{call.variant}, {call.dtype}, {call.name}: {kinds} after the calls before it in its process, and not alone: its answers depend on "
                "earlier calls"
            )
            return None
    beside = f"; other variants had run in the process ({', '.join(seen.others)})" if seen.others else ""
    for fault, violation in missing.items():
        blames.look_was_fruitless(fault)
        blames.note(
            f"{call.variant}, {call.dtype}, {call.name}: seen once, not again alone: {violation.kind} ({violation.message}){beside}"
        )
    return answer


def violations_of(answer: Measured | TrialDone) -> tuple[Violation, ...]:
    """The violations of an answer."""
    return answer.measurement.violations if isinstance(answer, Measured) else answer.outcome.violations


def _fault(call: Call, violation: Violation) -> Fault:
    place = _RAISED.search(violation.message) if violation.kind is FindingKind.RAISED else None
    return Fault(call.variant, call.dtype, violation.kind, "" if place is None else " ".join(place.groups()))


def _strike(pool: Pool, call: Call, missing: dict[Fault, Violation], answer: Measured | TrialDone) -> None:
    """Takes off what an answer shows, which needs not be shown again."""
    for violation in violations_of(answer):
        fault = _fault(call, violation)
        pool.blames.show(fault)
        missing.pop(fault, None)


def _alone(pool: Pool, call: Call, expected: type[Answer], times: int) -> Iterator[Answer | WorkerDiedError | None]:
    """Yields the answers that a call gives in one new process, or the end of that; None if it can't be made there."""
    is_over = False
    with fresh(pool.take(fresh=True), pool) as worker:
        for _ in range(times):
            answer: Measured | TrialDone | None
            try:
                answer = make(worker, call, lambda: pool.waits(call.variant))
            except DeviceRuinedError as ruined:
                pool.bury(worker, ruined)
                answer, is_over = ruined.reply, True
            except WorkerDiedError as died:
                pool.bury(worker, died)
                pool.blames.confirm(call.variant, kind_of(died))
                yield died
                return
            except SessionClosedError:
                raise
            except SoftcheckError:
                answer = None
            if answer is None or (_skipped(answer) is not None and not violations_of(answer)):
                yield None
                return
            assert isinstance(answer, expected)
            yield answer
            if is_over:
                return


def _skipped(answer: Measured | TrialDone) -> str | None:
    """The reason why a call was not made."""
    return answer.measurement.skipped if isinstance(answer, Measured) else answer.outcome.skipped


def _after_those_before(pool: Pool, seen: Sighting) -> Measured | TrialDone | None:
    """The answer of a call after those before it in their order, in a new process; None if it is not got in time."""
    if not seen.before and not seen.was_loaded:
        return None
    until = time.monotonic() + SECONDS
    found = None
    with fresh(pool.take(fresh=True), pool) as worker, contextlib.suppress(SoftcheckError):
        try:
            if seen.was_loaded:
                load(worker, seen.call.variant, (seen.call.dtype,), lambda: pool.waits(seen.call.variant))
            for call in (*seen.before, seen.call):
                if time.monotonic() > until:
                    return None
                found = make(worker, call, lambda: pool.waits(seen.call.variant))
        except WorkerDiedError as died:
            pool.bury(worker, died)
            return None
    return found
