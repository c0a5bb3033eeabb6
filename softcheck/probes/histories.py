"""Histories: calls in all circumstances, one after the other and at the same time, in one process.

Every output is judged when it comes, and must still be the same at the end. A broken promise is a finding if the same
values in the same layout keep it alone: on a fresh copy of the variant, in fresh memory, in no special mode. The history
is then shortened as far as it still shows the fault.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from softcheck.contract import VALUE_KINDS, FindingKind, Violation
from softcheck.probes import at_once
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe
from softcheck.probes.modes import modes
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.playing import Copies, Player
from softcheck.probes.shortening import shortened
from softcheck.probes.steps import Step, circumstances, plan

_SECONDS, _SECONDS_ON_GPU = 4.0, 1.0
"""Time after which the remaining steps of a plan are left out."""
_SECONDS_TO_SHORTEN = 4.0
_SLOW_FIRST_CALL = 0.4
"""Seconds of a copy's first call, from the second copy on, above which no more copies are made."""
_TOLD = 4
"""Calls at the beginning and at the end of a long history that a message tells."""
_WRONG = VALUE_KINDS | {FindingKind.UNWRITTEN_OUTPUT, FindingKind.WRONG_LAYOUT}


class _Histories(GroupedProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        shapes = [(3, 129), (34, 1032)] if setting.on_gpu else [(2, 129)]
        chosen = [(rows, columns) for rows, columns in shapes if setting.takes(columns)] or [(2, 1)]
        found = [
            Trial(f"in-turn-{rows}x{columns}", Step(rows=rows, columns=columns, dtype=setting.dtype))
            for rows, columns in (chosen[:1] if setting.quick else chosen)
        ]
        return [*found, *(Trial(label, act) for label, act in at_once.trials(setting).items())]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if isinstance(trial.parameters, Step):
            return _InTurn(subject, trial.parameters).outcome()
        outcome: Outcome = trial.parameters(subject)
        return outcome

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        made = sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done)
        return msgspec.structs.replace(super().conclude(done), trials=made)


PROBE = _Histories()


class _InTurn:
    """Plays the histories of one plan until one shows a fault."""

    def __init__(self, subject: Subject, base: Step) -> None:
        self._subject = subject
        self._base = base
        self._copies = Copies(subject)
        self._others: set[tuple[Step, FindingKind]] = set()
        """Steps, without their seeds, that break a promise alone, which other probes look for."""

    def outcome(self) -> Outcome:
        setting = self._subject.setting
        histories = plan(self._base, circumstances(setting, self._base, modes(on_gpu=setting.on_gpu)), setting.seed)
        histories = [[step for step in history if setting.takes(step.columns)] for history in histories]
        if setting.quick:
            histories = histories[:3]
        # Beside other work a core's time says how much was done; a GPU's time is no core's.
        clock = time.monotonic if setting.on_gpu else time.process_time
        seconds = _SECONDS_ON_GPU if setting.on_gpu else _SECONDS * setting.time_share
        begun, made, unable = clock(), 0, None
        for history in histories:
            player = Player(self._subject, self._copies.one())
            for count, step in enumerate(history, 1):
                if clock() - begun > seconds:
                    break
                started = clock()
                found = self._first_of_history(player.make(step), history[:count])
                if found is not None or player.fatal:
                    return Outcome(violations=() if found is None else (found,), fatal=player.fatal)
                if count == 1 and made and clock() - started > _SLOW_FIRST_CALL:
                    self._copies.are_fresh = False
                made += 1
            overwritten = player.overwritten()
            if overwritten is not None:
                return Outcome(violations=(self._told(overwritten, history),))
            unable = unable or player.unable
        planned = sum(map(len, histories))
        left_out = f"some of {planned} planned calls were left out: they take over {seconds:g} s"
        return Outcome(skipped=left_out if made < planned else unable, tried=(made,))

    def _first_of_history(self, violations: Sequence[Violation], steps: Sequence[Step]) -> Violation | None:
        """Returns the finding of the last step's first violation that its circumstances cause."""
        step = steps[-1]
        for violation in violations:
            kept = (replace(step.alone, seed=0), violation.kind)
            if kept in self._others:
                continue
            alone = Player(self._subject, self._copies.one()).make(step.alone)
            if any(_is_like(violation, other) for other in alone):
                self._others.add(kept)
                continue
            return self._told(violation, steps)
        return None

    def _again(self, like: Violation, steps: Sequence[Step]) -> Violation | None:
        """Returns the violation of the same promise that these steps show at their end, on a fresh copy."""
        player = Player(self._subject, self._copies.one())
        found: Sequence[Violation] = ()
        for step in steps:
            found = player.make(step)
        overwritten = player.overwritten()
        shown = (*found, *(() if overwritten is None else (overwritten,)))
        return next((other for other in shown if _is_like(like, other)), None)

    def _told(self, violation: Violation, steps: Sequence[Step]) -> Violation:
        """Returns a violation of the shortest history that shows it again, with that history in its words."""
        deadline = time.monotonic() + _SECONDS_TO_SHORTEN
        shown = violation

        def fails(fewer: Sequence[Step]) -> bool:
            nonlocal shown
            again = self._again(violation, fewer)
            shown = again or shown
            return again is not None

        shortest = shortened(
            list(steps),
            fails=fails,
            simpler=lambda step: step.simpler(self._base),
            is_over=lambda: time.monotonic() > deadline,
        )
        varies = shortest is None
        is_wrong = shown.kind in _WRONG
        *before, last = map(str, shortest or steps[-1:])
        words = f"{last} is wrong, and right alone" if is_wrong else last
        if varies:
            words += f", as call {len(steps)} of a history that passes when it is played again"
        elif before:
            words += f", after {_in_order(before)}"
        if is_wrong and (before or varies or steps[-1].failing):
            shown = msgspec.structs.replace(shown, kind=FindingKind.NONDETERMINISTIC, share=None)
        return msgspec.structs.replace(shown, message=f"{words}: {shown.message}")


def _in_order(steps: Sequence[str]) -> str:
    """The steps in words; equal ones that follow each other are counted, and of many the middle is left out."""
    runs = [(words, len(list(run))) for words, run in groupby(steps)]
    told = [words if count == 1 else f"{count} times {words}" for words, count in runs]
    if len(told) > 2 * _TOLD:
        told[_TOLD:-_TOLD] = [f"{len(told) - 2 * _TOLD} other calls"]
    return "; ".join(told)


def _is_like(one: Violation, other: Violation) -> bool:
    """True if two violations say the same: a wrong value, or the same other kind."""
    return one.kind is other.kind or (one.kind in _WRONG and other.kind in _WRONG)
