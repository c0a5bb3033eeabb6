"""Finds the call that corrupted a process in which a later call crashed. Imports no torch.

A call that ended its process is made again alone in a fresh process. If it ends the fresh process too, the call itself
is at fault. Otherwise an earlier call in the first process is at fault. Each variant that ran in that process is then
examined, beginning with the variant whose call crashed, in three ways:

the ``guard_bands`` probe, which sees writes out of bounds; the variant's calls under glibc's heap checks, which stop at
the call that wrote; and the variant's calls repeated in the same order, narrowed down to one call and the call that
crashes after it. Torch's softmax then takes the place of the earlier one: a call that crashes after torch's too reads or
writes foreign memory itself, and lay beside other memory when it ran alone.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.run.blames import Blame, Command, Fault
from softcheck.run.calls import FirstCallError, load, make
from softcheck.run.pool import Pool
from softcheck.run.process import Worker, WorkerDiedError, can_check_heap
from softcheck.run.protocol import Call, Measured, Probed, RunCase, RunProbe, TrialDone
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import BUILTIN_OF

SECONDS = 60.0
"""Seconds within which a culprit must be found."""

MOST_LOOKS = 3
"""Fruitless searches for the cause of a variant's crashes in a dtype, after which its further crashes are only
counted."""

_PROBE = "guard_bands"
_CORRUPTED = "memory was corrupted by an earlier call"

Answer = TypeVar("Answer", Measured, TrialDone)


def again_alone(
    pool: Pool, worker: Worker, call: Call, died: WorkerDiedError, expected: type[Answer]
) -> Answer | WorkerDiedError:
    """Repeats alone, in a fresh process, a call that ended its worker, and returns its answer or its second death.

    If the call answers, the culprit is searched for and recorded in ``pool.blames``. ``worker`` is the dead worker; the
    call is the last in ``worker.calls``. Raises SoftcheckError if the call can't be made again.
    """
    kind = kind_of(died)
    if len(worker.calls) == 1 and not worker.loaded - {call.variant} and pool.blames.is_confirmed(call.variant, kind):
        return died
    if died.timed_out and pool.blames.is_confirmed(call.variant, kind):
        # Each further attempt would wait for as long again.
        return died
    if died.timed_out and pool.patience.over(call.variant, call.dtype) is not None:
        pool.blames.confirm(call.variant, kind)
        return died
    if died.is_of_host and pool.blames.is_confirmed(call.variant, kind):
        # It has had the device for itself.
        return died
    answer = alone(pool, call, expected, is_loaded_first=True)
    if isinstance(answer, expected) and not (died.is_early or died.is_of_host):
        # An early death shows only that the call is slow, and one of the host that something there ended it.
        lay(pool, worker.calls[:-1], call, died)
    return answer


def alone(pool: Pool, call: Call, expected: type[Answer], *, is_loaded_first: bool = False) -> Answer | WorkerDiedError:
    """Makes a call in a fresh process, and returns its answer or the death of that process, which confirms the blame.

    With ``is_loaded_first`` the variant is loaded, and so called once, before the call, unless the first call leaves
    something behind. Raises SoftcheckError if the call can't be made.
    """
    with fresh(pool.take(fresh=True), pool) as worker:
        try:
            if is_loaded_first:
                load(worker, call.variant, (call.dtype,), lambda: pool.waits(call.variant))
            answer = make(worker, call, lambda: pool.waits(call.variant))
        except FirstCallError:
            answer = None
        except WorkerDiedError as died:
            pool.bury(worker, died)
            pool.blames.confirm(call.variant, kind_of(died))
            return died
    if answer is None and is_loaded_first:
        return alone(pool, call, expected)
    assert isinstance(answer, expected)
    return answer


@contextlib.contextmanager
def fresh(worker: Worker, pool: Pool) -> Iterator[Worker]:
    """A worker for one purpose, ended after it."""
    try:
        yield worker
    finally:
        pool.retire(worker)


def kind_of(died: WorkerDiedError) -> FindingKind:
    """Returns the kind of finding that the end of a process is."""
    return FindingKind.TIMEOUT if died.timed_out else FindingKind.CRASH


def lay(pool: Pool, earlier: Sequence[Call], crashed: Call, died: WorkerDiedError) -> None:
    """Attributes the end of a process to the call that caused it, as far as that call can be found.

    The call ``crashed`` is known to pass alone. ``earlier`` are the calls that the process had served before. A crash that no
    search shows again is only noted in ``pool.blames``: another variant, or the machine, may have ended the process.
    """
    blames = pool.blames
    with blames.looking:
        ran = {call.variant for call in (*earlier, crashed)}
        known = blames.known(ran, crashed.dtype)
        if known is not None:
            blames.add(known[0], crashed.dtype, known[1])
            return
        fault = Fault(crashed.variant, crashed.dtype, kind_of(died))
        found = _declared(pool, crashed, died)
        if found is None and blames.fruitless(fault) < MOST_LOOKS:
            found = _Search(pool, earlier, crashed, died).culprit()
        if found is not None:
            blames.add(crashed.variant, crashed.dtype, found)
            return
        blames.look_was_fruitless(fault)
        others = ", ".join(sorted(ran - {crashed.variant}))
        beside = f"; other variants had run in the process ({others})" if others else ""
        blames.note(
            f"{crashed.variant}, {crashed.dtype}, {crashed.name}: seen once, not again alone: {died}; alone in a new process it passes, and so do "
            f"the calls before it in the same order{beside}"
        )


def lay_idle(pool: Pool, calls: Sequence[Call], died: WorkerDiedError) -> None:
    """Does the same as ``lay`` for a process that ended between two calls, after ``calls``."""
    if calls:
        lay(pool, calls, calls[-1], died)


def _declared(pool: Pool, crashed: Call, died: WorkerDiedError) -> Blame | None:
    """Returns the blame for a call whose variant declares that it may end its process; None if it declares no such thing.

    It asks for no search: reads of foreign memory, say, end a process where that memory happens to lie at a segment's end.
    """
    declaration = pool.blames.declarations.get(crashed.variant)
    violation = Violation(kind_of(died), f"{died}; alone in a new process it passes, and it is declared")
    if declaration is None:
        return None
    if declaration.explanation(violation, crashed.name, crashed.dtype, pool.ready.backend) is None:
        return None
    return Blame(
        variant=crashed.variant,
        dtype=crashed.dtype,
        case=crashed.name,
        violation=violation,
        command=_command([crashed]),
        is_reproduced=False,
    )


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a process during a replay: the index of the call, and the error."""

    index: int
    died: WorkerDiedError


class _OutOfTimeError(Exception):
    """Raised when the search for a culprit has taken ``SECONDS``."""


class _Search:
    """One search for the culprit of one crash."""

    def __init__(self, pool: Pool, earlier: Sequence[Call], crashed: Call, died: WorkerDiedError) -> None:
        self._pool = pool
        self._earlier = earlier
        self._crashed = crashed
        self._died = died
        self._until = time.monotonic() + SECONDS

    def culprit(self) -> Blame | None:
        """Returns the first culprit found, or None."""
        names = dict.fromkeys([self._crashed.variant, *(call.variant for call in reversed(self._earlier))])
        # Under glibc's checks a hang only hangs again, and says nothing of its cause.
        looks = (
            (self._by_order, self._by_probe)
            if self._died.timed_out
            else (self._by_probe, self._by_heap_checks, self._by_order)
        )
        for name in names:
            mine = [call for call in self._earlier if call.variant == name]
            for look in looks:
                try:
                    found = look(mine) if mine else None
                except (_OutOfTimeError, FirstCallError):
                    return None
                if found is not None:
                    return found
        return None

    def _by_probe(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for a write out of bounds with ``guard_bands``.

        Such a write is the better cause to name: it shows in any order.
        """
        dtypes = [call.dtype for call in mine]
        dtype = self._crashed.dtype if self._crashed.dtype in dtypes else dtypes[-1]
        variant = mine[0].variant
        shown = None
        with fresh(self._pool.take(fresh=True), self._pool) as worker:
            try:
                request = RunProbe(variant, _PROBE, dtype, effort="normal", seed=0)
                load(worker, variant, (dtype,), self._left())
                for reply in worker.ask(request, self._left()):
                    if isinstance(reply, Probed):
                        findings = reply.conclusion.findings
                        shown = next((s for s in findings if s.violation.kind is FindingKind.OUT_OF_BOUNDS_WRITE), None)
            except WorkerDiedError:
                # The probe's own trials may crash; the other two ways find the cause of such a crash.
                self._pool.refuse_if_closed()
        if shown is None:
            return None
        message = f"{_CORRUPTED}, as a later crash showed: {shown.violation.message}"
        return Blame(
            variant=variant,
            dtype=dtype,
            case=f"probe/{_PROBE}/{shown.label}",
            violation=msgspec.structs.replace(shown.violation, message=message),
            command=Command(variants=(variant,), dtypes=(dtype,), probes=(_PROBE,)),
            is_reproduced=True,
        )

    def _by_heap_checks(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for the call in which glibc finds a write beside memory that the call freed."""
        if self._pool.ready.backend != "interpreter" or not can_check_heap():
            return None
        # The smallest calls first, whatever order they ran in, so that other runs name the same call.
        calls = sorted({call.name: call for call in self._of(mine)}.values(), key=_size)
        end = self._replay(self._pool.take_checked, calls)
        if end is None:
            return None
        suspects = calls[max(0, end.index - 1) : end.index + 1]
        # What glibc expects beside a block hangs on its address, so that a wrong byte may pass for the right one by chance.
        for suspect in (*reversed(suspects), *reversed(suspects)):
            alone = self._replay(self._pool.take_checked, [suspect])
            if alone is not None:
                return self._blame(
                    suspect,
                    f"{_CORRUPTED}, {suspect.name}, likely an out-of-bounds write: a later call crashed, and glibc's heap "
                    f"checks end the process in this one ({alone.died})",
                    msgspec.structs.replace(_command([suspect]), check_heap=True),
                )
        return None

    def _by_order(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for an earlier call after which a later call crashes, or for a call that crashes alone."""
        calls = [*mine, self._crashed]
        if self._died.timed_out:
            return self._hangs_again(calls)
        end = self._replay(self._fresh, calls)
        if end is None:
            return None
        suspects, last, died = self._narrowed(calls[: end.index], calls[end.index], end.died)
        command = _command([*suspects, last])
        in_its_order = _calls_of(command, [*suspects, last])
        if in_its_order != [*suspects, last]:
            shown = self._replay(self._fresh, in_its_order)
            if shown is None:
                return None
            died = shown.died
        if not suspects:
            return self._blame(last, f"{died}; expected an output", command)
        stand_in = self._stand_in(last.variant)
        if any(call.variant != stand_in for call in suspects):
            end = self._replay(self._fresh, [*(_by(stand_in, call) for call in suspects), last])
            if end is not None and end.index == len(suspects):
                return self._blame(
                    last,
                    f"{end.died}; alone in a new process it passes, and after the same calls of {stand_in} it crashes too; "
                    "expected a call to use its own tensors alone, whatever memory lies beside them",
                    msgspec.structs.replace(command, variants=(stand_in, last.variant)),
                )
        named = suspects[0].name if len(suspects) == 1 else f"one of {len(suspects)} from {suspects[0].name} on"
        return self._blame(
            suspects[0],
            f"{_CORRUPTED}, {named}, likely an out-of-bounds write, or something that it left running: after it "
            f"{last.name} crashes in the same process, and alone it passes ({died})",
            command,
        )

    def _hangs_again(self, calls: Sequence[Call]) -> Blame | None:
        """Makes calls in order, once, of which the last ran out of time: each further replay would wait as long."""
        *earlier, last = calls
        with fresh(self._fresh(), self._pool) as worker:
            try:
                for call in earlier:
                    if call.variant not in worker.loaded:
                        load(worker, call.variant, (call.dtype,), self._left())
                    make(worker, call, self._left())
            except WorkerDiedError:
                self._pool.refuse_if_closed()
                return None
            try:
                make(worker, last, lambda: self._pool.waits(last.variant))
            except WorkerDiedError as died:
                self._pool.refuse_if_closed()
                if not died.timed_out:
                    return None
                return Blame(
                    variant=last.variant,
                    dtype=last.dtype,
                    case=last.name,
                    violation=Violation(
                        kind_of(died),
                        f"{died}; alone in a new process it passes, and after the calls before it in the same order it runs out of time again",
                    ),
                    command=_command(calls),
                    is_reproduced=True,
                )
        return None

    def _stand_in(self, variant: str) -> str:
        """Torch's own variant of what a variant computes."""
        declared = self._pool.blames.declarations.get(variant, Declaration())
        return next(name for name in BUILTIN_OF[declared.operation] if name.startswith("torch"))

    def _narrowed(
        self, suspects: Sequence[Call], last: Call, died: WorkerDiedError
    ) -> tuple[Sequence[Call], Call, WorkerDiedError]:
        """Narrows the suspects down to as few as possible, as far as the time goes.

        Returns the calls that are left, the call that crashes after them, and the error.
        """
        with contextlib.suppress(_OutOfTimeError):
            while len(suspects) > 1:
                for half in (suspects[len(suspects) // 2 :], suspects[: len(suspects) // 2]):
                    end = self._replay(self._fresh, [*half, last])
                    if end is not None:
                        suspects, last, died = half[: end.index], [*half, last][end.index], end.died
                        break
                else:
                    break
        return suspects, last, died

    def _of(self, mine: Sequence[Call]) -> list[Call]:
        """The variant's calls, with the crashed call at the end if it is the same variant's."""
        return [*mine, self._crashed] if self._crashed.variant == mine[0].variant else list(mine)

    def _blame(self, culprit: Call, message: str, command: Command) -> Blame:
        return Blame(
            variant=culprit.variant,
            dtype=culprit.dtype,
            case=culprit.name,
            violation=Violation(FindingKind.CRASH, message),
            command=command,
            is_reproduced=True,
        )

    def _replay(self, take: Callable[[], Worker], calls: Sequence[Call]) -> _End | None:
        """Makes the calls in one fresh process, each variant loaded before its first call.

        Returns None if the process survives.
        """
        index = 0
        with fresh(take(), self._pool) as worker:
            try:
                for index, call in enumerate(calls):  # noqa: B007 - needed where it raises
                    if call.variant not in worker.loaded:
                        load(worker, call.variant, (call.dtype,), self._left())
                    make(worker, call, self._left())
            except WorkerDiedError as died:
                self._pool.refuse_if_closed()
                if died.timed_out:
                    raise _OutOfTimeError from None
                return _End(index, died)
        return None

    def _fresh(self) -> Worker:
        return self._pool.take(fresh=True)

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0.0:
            raise _OutOfTimeError
        return min(left, self._pool.seconds)


def _by(variant: str, call: Call) -> Call:
    """The same call of another variant."""
    request = call.request
    if isinstance(request, RunCase):
        return replace(call, variant=variant, request=msgspec.structs.replace(request, variants=(variant,)))
    return replace(call, variant=variant, request=msgspec.structs.replace(request, variant=variant))


def _size(call: Call) -> tuple[bool, int, str]:
    """Cases before trials, and small ones first."""
    request = call.request
    if isinstance(request, RunCase):
        return False, request.case.shape[0] * request.case.shape[1], call.name
    return True, 0, call.name


def _command(calls: Sequence[Call]) -> Command:
    """The command with which a report makes these calls in this order."""
    probes = [call.request for call in calls if isinstance(call.request, RunProbe)]
    return Command(
        variants=tuple(dict.fromkeys(call.variant for call in calls)),
        dtypes=tuple(dict.fromkeys(call.dtype for call in calls)),
        cases=tuple(dict.fromkeys(call.request.case for call in calls if isinstance(call.request, RunCase))),
        probes=tuple(dict.fromkeys(request.probe for request in probes)),
        effort=next((request.effort for request in probes), "normal"),
        seed=max((request.seed for request in probes), default=0),
    )


def _calls_of(command: Command, calls: Sequence[Call]) -> list[Call]:
    """The calls that the command makes, in its order: each variant on all cases, then all probes."""
    by_case = {call.name: call.request for call in calls if isinstance(call.request, RunCase)}
    return [
        *(
            Call(name, request.case.dtype, case_id, msgspec.structs.replace(request, variants=(name,)))
            for name in command.variants
            for case_id, request in by_case.items()
        ),
        *(
            Call(name, dtype, f"probe/{probe}", RunProbe(name, probe, dtype, command.effort, command.seed))
            for probe in command.probes
            for name in command.variants
            for dtype in command.dtypes
        ),
    ]
