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
import math
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.run.blames import Blame, Command, Fault
from softcheck.run.calls import Answer, FirstCallError, in_trial, replay
from softcheck.run.pool import Pool
from softcheck.run.process import Waits, Worker, WorkerDiedError, can_check_heap, waits
from softcheck.run.protocol import Call, ProbePlanned, ProbeTask, RunCase, RunProbe
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import BUILTIN_OF

SECONDS = 60.0
"""Seconds within which a culprit must be found."""

MOST_LOOKS = 3
"""Findings of one fault that nothing shows again, after which further crashes are only counted, and further findings of
another kind get one call alone each."""

_PROBE = "guard_bands"
_CORRUPTED = "memory was corrupted by an earlier call"


def again_alone(pool: Pool, worker: Worker, call: Call, died: WorkerDiedError) -> Answer | WorkerDiedError:
    """Repeats alone, in a fresh process, a call that ended its worker, and returns its answer or its second death.

    If the call answers, the culprit is searched for and recorded in ``pool.blames``. ``worker`` is the dead worker; the
    call is the last in ``worker.calls``. Raises SoftcheckError if the call can't be made again.
    """
    own = Fault(call.variant, "", died.kind)
    was_first = len(worker.calls) == 1 and not worker.loaded - {call.variant}
    # Each further hang would be waited for as long again, and a call that ended its host had the device for itself.
    if own in pool.blames.shown and (was_first or died.timed_out or died.is_of_host):
        return died
    if died.timed_out and pool.patience.over(call.variant, call.dtype) is not None:
        pool.blames.shown.add(own)
        return died
    answer = alone(pool, call)
    if not isinstance(answer, WorkerDiedError) and not died.is_of_host:
        # The death of a host shows only that something there ended it.
        lay(pool, worker.calls, died)
    return answer


def alone(pool: Pool, call: Call) -> Answer | WorkerDiedError:
    """Makes a call in a fresh process, and returns its answer or the death of that process, which confirms the blame.

    The variant is loaded, and so called once, before the call, unless the first call leaves something behind. Raises
    SoftcheckError if the call can't be made.
    """
    try:
        (answer,) = replay(pool, [call])
    except FirstCallError:
        (answer,) = replay(pool, [call], is_loaded_first=False)
    if isinstance(answer, WorkerDiedError):
        pool.blames.shown.add(Fault(call.variant, "", answer.kind))
    return answer


def lay(pool: Pool, calls: Sequence[Call], died: WorkerDiedError) -> None:
    """Attributes the end of a process to the call that caused it, as far as that call can be found.

    ``calls`` are those that the process has served, in order, the last of which is known to pass alone. Without any,
    nothing is at fault. A crash that no search shows again is only noted in ``pool.blames``: another variant, or the
    machine, may have ended the process.
    """
    if not calls:
        return
    *earlier, crashed = calls
    blames = pool.blames
    with blames.looking:
        ran = {call.variant for call in (*earlier, crashed)}
        known = blames.known(ran, crashed.dtype)
        if known is not None:
            blames.add(known[0], crashed.dtype, known[1])
            return
        fault = Fault(crashed.variant, crashed.dtype, died.kind)
        violation = died.violation("alone in a new process it passes, and it is declared")
        found = None
        # Reads of foreign memory, say, end a process where that memory happens to lie at a segment's end.
        if pool.is_declared(crashed, violation):
            found = _blame(crashed, violation, _command([crashed]), is_reproduced=False)
        elif blames.fruitless[fault] < MOST_LOOKS:
            found = _Search(pool, earlier, crashed, died).culprit()
        if found is not None:
            blames.add(crashed.variant, crashed.dtype, found)
            return
        blames.fruitless[fault] += 1
        said = f"{died}; alone in a new process it passes, and so do the calls before it in the same order"
        blames.note(crashed, f"seen once, not again alone: {said}", sorted(ran - {crashed.variant}))


class _OutOfTimeError(Exception):
    """Raised when the search for a culprit has taken ``SECONDS``."""


class _Search:
    """One search for the culprit of one crash."""

    def __init__(self, pool: Pool, earlier: Sequence[Call], crashed: Call, died: WorkerDiedError) -> None:
        self._pool, self._earlier, self._crashed, self._died = pool, earlier, crashed, died
        self._until = time.monotonic() + SECONDS

    def culprit(self) -> Blame | None:
        """Returns the first culprit found, or None."""
        names = dict.fromkeys([self._crashed.variant, *(call.variant for call in reversed(self._earlier))])
        looks = [self._by_probe, self._by_heap_checks, self._by_order]
        if self._died.timed_out:
            # Under glibc's checks a hang only hangs again, and says nothing of its cause.
            looks = [self._by_order, self._by_probe]
        with contextlib.suppress(_OutOfTimeError, FirstCallError):
            for name in names:
                mine = [call for call in self._earlier if call.variant == name]
                for look in looks if mine else ():
                    if (found := look(mine)) is not None:
                        return found
        return None

    def _by_probe(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for a write out of bounds with ``guard_bands``: the better cause to name, since it shows in any order."""
        dtypes = [call.dtype for call in mine]
        dtype = self._crashed.dtype if self._crashed.dtype in dtypes else dtypes[-1]
        task = ProbeTask(variant=mine[0].variant, dtype=dtype, probe=_PROBE)
        labels: Sequence[str] = ()
        with contextlib.suppress(WorkerDiedError):
            for reply in self._pool.ask(self._pool.take(task.variant), RunProbe(task=task)):
                labels = reply.labels if isinstance(reply, ProbePlanned) else labels
        trials = [in_trial(task, index, label) for index, label in enumerate(labels)]
        # A trial may crash; the other two ways find the cause of that.
        answers, _ = self._replayed(trials, may_hang=True)
        for trial, answer in zip(trials, answers, strict=False):
            for seen in answer.result.violations:
                if seen.kind is FindingKind.OUT_OF_BOUNDS_WRITE:
                    message = f"{_CORRUPTED}, as a later crash showed: {seen.message}"
                    return _blame(trial, msgspec.structs.replace(seen, message=message), _command([trial]))
        return None

    def _by_heap_checks(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for the call in which glibc finds a write beside memory that the call freed."""
        if self._pool.ready.backend != "interpreter" or not can_check_heap():
            return None
        own = [*mine, self._crashed] if self._crashed.variant == mine[0].variant else mine
        # Cases before trials and the smallest first, whatever order they ran in, so that other runs name the same call.
        by_name = {call.name: call for call in own}
        calls = sorted(by_name.values(), key=lambda call: (_elements(call), call.name))
        answers, died = self._replayed(calls, check_heap=True)
        if died is None:
            return None
        suspects = calls[max(0, len(answers) - 1) : len(answers) + 1]
        # What glibc expects beside a block hangs on its address, so that a wrong byte may pass for the right one by chance.
        for suspect in (*reversed(suspects), *reversed(suspects)):
            if (died := self._replayed([suspect], check_heap=True)[1]) is not None:
                message = (
                    f"{_CORRUPTED}, {suspect.name}, likely an out-of-bounds write: a later call crashed, and glibc's heap "
                    f"checks end the process in this one ({died})"
                )
                return _blame(suspect, message, msgspec.structs.replace(_command([suspect]), check_heap=True))
        return None

    def _by_order(self, mine: Sequence[Call]) -> Blame | None:
        """Looks for an earlier call after which a later call crashes, or for a call that crashes alone."""
        calls = [*mine, self._crashed]
        answers, died = self._replayed(calls, may_hang=self._died.timed_out)
        if self._died.timed_out:
            # Made in order once only, since each further replay would wait as long.
            if died is None or not died.timed_out or len(answers) < len(mine):
                return None
            words = "alone in a new process it passes, and after the calls before it in the same order it runs out of time again"
            return _blame(self._crashed, died.violation(words), _command(calls))
        if died is None:
            return None
        suspects, last, died = self._narrowed(calls[: len(answers)], calls[len(answers)], died)
        command = _command([*suspects, last])
        if not suspects:
            return _blame(last, died.violation(), command)
        declared = self._pool.declarations.get(last.variant, Declaration())
        torchs = next(name for name in BUILTIN_OF[declared.operation] if name.startswith("torch"))
        if any(call.variant != torchs for call in suspects):
            answers, end = self._replayed([*(_by(torchs, call) for call in suspects), last])
            if end is not None and len(answers) == len(suspects):
                message = (
                    f"{end}; alone in a new process it passes, and after the same calls of {torchs} it crashes too; "
                    "expected a call to use its own tensors alone, whatever memory lies beside them"
                )
                return _blame(last, message, msgspec.structs.replace(command, variants=(torchs, last.variant)))
        named = suspects[0].name if len(suspects) == 1 else f"one of {len(suspects)} from {suspects[0].name} on"
        return _blame(
            suspects[0],
            f"{_CORRUPTED}, {named}, likely an out-of-bounds write, or something that it left running: after it "
            f"{last.name} crashes in the same process, and alone it passes ({died})",
            command,
        )

    def _narrowed(
        self, suspects: Sequence[Call], last: Call, died: WorkerDiedError
    ) -> tuple[Sequence[Call], Call, WorkerDiedError]:
        """Halves the suspects as often as a call still crashes after them, as far as the time goes.

        Returns the calls that are left, the call that crashes after them, and the error.
        """
        with contextlib.suppress(_OutOfTimeError):
            while len(suspects) > 1:
                for half in (suspects[len(suspects) // 2 :], suspects[: len(suspects) // 2]):
                    answers, end = self._replayed([*half, last])
                    if end is not None:
                        suspects, last, died = half[: len(answers)], [*half, last][len(answers)], end
                        break
                else:
                    break
        return suspects, last, died

    def _replayed(
        self, calls: Sequence[Call], *, check_heap: bool = False, may_hang: bool = False
    ) -> tuple[list[Answer], WorkerDiedError | None]:
        """Makes calls in one fresh process and returns the answers, and how the call after these ended the process.

        If it hangs the search is over, unless it ``may_hang``: calls then have all the time that they have elsewhere.
        """
        answers: list[Answer] = []

        def limits(variant: str | None) -> Waits:
            left = self._until - time.monotonic()
            if left <= 0.0:
                raise _OutOfTimeError
            return self._pool.waits(variant) if may_hang else waits(min(left, self._pool.seconds))

        for answer in replay(self._pool, calls, limits, check_heap=check_heap):
            if isinstance(answer, WorkerDiedError):
                if answer.timed_out and not may_hang:
                    raise _OutOfTimeError
                return answers, answer
            answers.append(answer)
        return answers, None


def _blame(culprit: Call, violation: Violation | str, command: Command, *, is_reproduced: bool = True) -> Blame:
    """The blame of a call for a broken promise, a crash where only its message is given."""
    return Blame(
        variant=culprit.variant,
        dtype=culprit.dtype,
        case=culprit.name,
        violation=Violation(FindingKind.CRASH, violation) if isinstance(violation, str) else violation,
        command=command,
        is_reproduced=is_reproduced,
    )


def _by(variant: str, call: Call) -> Call:
    """The same call of another variant."""
    if isinstance(call.request, RunProbe):
        task = msgspec.structs.replace(call.request.task, variant=variant)
        return replace(call, variant=variant, request=msgspec.structs.replace(call.request, task=task))
    return replace(call, variant=variant, request=msgspec.structs.replace(call.request, variant=variant))


def _elements(call: Call) -> float:
    """The elements of a case's input; infinite for a trial."""
    return math.prod(call.request.case.shape) if isinstance(call.request, RunCase) else math.inf


def _command(calls: Sequence[Call]) -> Command:
    """The command with which a report makes these calls in this order."""
    tasks = [call.request.task for call in calls if isinstance(call.request, RunProbe)]
    return Command(
        variants=tuple(dict.fromkeys(call.variant for call in calls)),
        dtypes=tuple(dict.fromkeys(call.dtype for call in calls)),
        cases=tuple(dict.fromkeys(call.request.case for call in calls if isinstance(call.request, RunCase))),
        probes=tuple(dict.fromkeys(task.probe for task in tasks)),
        effort=next((task.effort for task in tasks), "normal"),
        seed=max((task.seed for task in tasks), default=0),
    )
