"""Histories: calls in all circumstances, one after the other and at the same time, in one process.

Every output is judged when it comes, and must still be the same at the end. A broken promise is a finding if the same
values in the same layout keep it alone: on a fresh copy of the variant, in fresh memory, in no special mode. Histories
are an opening, in which every circumstance meets every other, and random ones. Hypothesis draws the random ones, and
shrinks whatever shows a fault.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

import hypothesis
import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.probes import at_once
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe
from softcheck.probes.history_words import ShownError, is_like, told
from softcheck.probes.machine import OverError, play_random, shorten
from softcheck.probes.modes import fitted, modes, together
from softcheck.probes.other_sizes import other_sizes
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.playing import Copies, Player
from softcheck.probes.shape_plan import Shape
from softcheck.probes.steps import Code, Step, circumstances
from softcheck.probes.working_clock import WorkingClock
from softcheck.variants.source import source_of

_SECONDS, _SECONDS_ON_GPU = 4.0, 2.0
"""Time after which the remaining steps are left out."""
_LATEST = (0.5, 0.7, 0.8, 0.9, 1.0)
"""Parts of the time by which each of the opening's first histories ends, so that none takes the time of those behind it."""
_LEAST_PART = 0.15
"""Part of the time that each of them has at least: on a GPU those before it may wait for the compiler."""
_SECONDS_ELSEWHERE, _SECONDS_ELSEWHERE_ON_GPU = 6.0, 3.0
"""The same for all histories at other sizes together."""
_SECONDS_TO_COMPILE = 4.0
"""Time that Triton may compile for on a GPU and that is not counted, since a history of many shapes and dtypes compiles many kernels."""
_SECONDS_TO_SHORTEN = 4.0
_SLOW_FIRST_CALL = 0.4
"""Seconds of a copy's first call, from the second copy on, above which no more copies are made."""
_CALM, _MOST_CALM = 20, 130
"""Ordinary calls in a row, and the largest number of a source that there are more of."""
_RANDOM, _RANDOM_IF_QUICK = 5, 2
"""Random histories, the first of them of ordinary steps alone."""


class _Histories(GroupedProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        shapes = [(3, 129), (34, 1032)] if setting.on_gpu else [(2, 129)]
        chosen = [(rows, columns) for rows, columns in shapes if setting.takes(columns)] or [(2, 1)]
        found = [
            Trial(
                f"in-turn-{rows}x{columns}",
                Step(rows=rows, columns=columns, dtype=setting.dtype, function=setting.operation.name),
            )
            for rows, columns in (chosen[:1] if setting.quick else chosen)
        ]
        if not setting.quick:
            found.append(Trial("in-turn-elsewhere", partial(_elsewhere, ordinary=found[0].parameters)))
        return [*found, *(Trial(label, act) for label, act in at_once.trials(setting).items())]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if isinstance(trial.parameters, Step):
            return _InTurn(subject, trial.parameters, _seconds(subject, _SECONDS, _SECONDS_ON_GPU)).outcome()
        outcome: Outcome = trial.parameters(subject)
        return outcome

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        made = sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done)
        return msgspec.structs.replace(super().conclude(done), trials=made)


PROBE = _Histories()


def _seconds(subject: Subject, interpreted: float, on_gpu: float) -> float:
    return (on_gpu if subject.setting.on_gpu else interpreted) * subject.setting.time_share


def _elsewhere(subject: Subject, ordinary: Step) -> Outcome:
    """Plays two short histories at each of some other sizes, between calls of the ordinary one, on rows that jump."""
    sizes = other_sizes(subject, Shape(ordinary.rows, ordinary.columns))
    seconds = _seconds(subject, _SECONDS_ELSEWHERE, _SECONDS_ELSEWHERE_ON_GPU)
    made, left_out = 0, None
    for number, (rows, columns) in enumerate(sizes):
        base = replace(ordinary, rows=rows, columns=columns, contents="jumps")
        run = _InTurn(subject, base, seconds / len(sizes), ordinary)
        outcome = run.outcome(seed=number, is_short=True)
        if outcome.violations or outcome.fatal:
            return outcome
        made, left_out = made + run.made, left_out or outcome.skipped
    return Outcome(tried=(made,), skipped=left_out)


class _InTurn:
    """Plays the opening's first histories, random ones and the opening's others until one shows a fault."""

    def __init__(self, subject: Subject, base: Step, seconds: float, beside: Step | None = None) -> None:
        setting = subject.setting
        self._subject = subject
        around = modes(on_gpu=setting.on_gpu, dtype=base.dtype, has_heads=setting.has_heads)
        self._circumstances = circumstances(setting, base, around, beside)
        self._changes = self._circumstances.changes
        self._copies = Copies(subject)
        self._others: set[tuple[Step, FindingKind]] = set()
        """Steps, without their seeds, that break a promise alone, which other probes look for."""
        self._clock = WorkingClock(setting, _SECONDS_TO_COMPILE)
        self._seconds = seconds
        self._end = self._clock() + self._seconds
        self._shown: list[ShownError] = []
        self.made = 0
        self.fatal = False
        self.unable: str | None = None
        """The reason why Triton's interpreter could not make some call."""

    def outcome(self, *, seed: int = 0, is_short: bool = False) -> Outcome:
        """Plays the histories that ``seed`` orders; if ``is_short``, the first two alone."""
        setting = self._subject.setting
        first, second, typed, calm, rewriting, *rest = self._circumstances.opening(
            setting.seed + seed, self._calm_calls()
        )
        # Many widths among the changes would leave few calls that return to one.
        few = len(self._changes) - len(self._circumstances.widths)
        count = _RANDOM_IF_QUICK if setting.quick else _RANDOM
        begun, is_over = self._clock(), False
        opening = [first, second] if is_short else [first, second, typed, calm, rewriting]
        for latest, history in zip(_LATEST, opening, strict=False):
            now = self._clock()
            self._end = max(begun + self._seconds * (1.0 if is_short else latest), now + self._seconds * _LEAST_PART)
            is_over |= bool(history) and not self._plays(history)
            if self._shown or self.fatal:
                return self._found()
        self._end = begun + self._seconds
        others: list[Sequence[Code] | None] = [] if is_short else [None, *([] if setting.quick else rest)]
        for other in others:
            if other is None:
                is_whole = self._run(lambda: play_random(self._begin, few, setting.seed, count))
            else:
                is_whole = self._plays(other)
            if self._shown or self.fatal:
                return self._found()
            is_over |= not is_whole
            if not is_whole:
                break
        left_out = f"some planned calls were left out: they take over {self._seconds:g} s"
        return Outcome(skipped=left_out if is_over else self.unable, tried=(self.made,), fatal=self.fatal)

    def _found(self) -> Outcome:
        shown = (self._shortened(self._shown[0]),) if self._shown else ()
        return Outcome(violations=shown, skipped=None if shown else self.unable, tried=(self.made,), fatal=self.fatal)

    def _calm_calls(self) -> int:
        """Calls after which what a variant has learnt of its inputs may be settled: more than a number of its source, if it keeps anything."""
        source = source_of(self._subject.variant.function)
        numbers = source.sizes if "history" in source.circumstances else ()
        return max([_CALM, *(number + 2 for number in numbers if number <= _MOST_CALM)])

    def _plays(self, history: Sequence[Code]) -> bool:
        """Plays one history to its end, or to its first fault. Returns False if there is no more time."""

        def play() -> None:
            played = self._begin()
            for code in history:
                played.make(code)
            played.end()

        return self._run(play)

    def _run(self, play: Callable[[], None]) -> bool:
        """Plays. Returns False if time is over before the end; a fault is in ``_shown``."""
        try:
            play()
        except OverError as over:
            if over.__cause__ is not None:
                raise over.__cause__ from None
            return False
        except (ShownError, hypothesis.errors.Flaky):
            pass
        return True

    def _shortened(self, shown: ShownError) -> Violation:
        """Returns a fault, told by as few and simple steps as show it."""
        codes, count = shown.codes, 1
        # The last steps alone are tried first, since hypothesis takes steps away one by one.
        while not (again := self._shows_again(codes[-count:])) and count < len(codes):
            count *= 2
        if not again:
            return told(shown, self._subject, varies=not self.fatal)
        self._run(lambda: shorten(self._begin, len(self._changes), codes[-count:]))
        shortest = min(self._shown, key=lambda each: (len(each.steps), sum(len(str(step)) for step in each.steps)))
        return told(self._without_idle_steps(shortest), self._subject, varies=False)

    def _without_idle_steps(self, shown: ShownError) -> ShownError:
        """Returns the fault without the steps that did no more than give the last one its values.

        Without a step of the same code before it, hypothesis' shorter history has other values, which may be right. Of a hundred
        steps of one code in a row, of which the first is needed, the others are taken to be.
        """
        place = 0
        while place < len(shown.steps) - 1:
            if place and shown.codes[place] == shown.codes[place - 1]:
                place += 1
                continue
            steps = shown.steps[:place] + shown.steps[place + 1 :]
            codes = shown.codes[:place] + shown.codes[place + 1 :]
            violation = None if self.fatal else self._violation_of(steps, shown.violation)
            if violation is None:
                place += 1
            else:
                shown = ShownError(violation, codes, steps)
        return shown

    def _violation_of(self, steps: Sequence[Step], like: Violation) -> Violation | None:
        """Plays steps as they are; returns what the last one, or an output after it, breaks as ``like`` does."""
        player = self.player()
        found: Sequence[Violation] = ()
        for step in steps:
            found = player.make(step)
        self.fatal |= player.fatal
        overwritten = player.overwritten()
        everything = [*found, *([] if overwritten is None else [overwritten])]
        return next((violation for violation in everything if is_like(violation, like)), None)

    def _shows_again(self, history: Sequence[Code]) -> bool:
        before = len(self._shown)
        self._plays(history)
        return len(self._shown) > before

    def _begin(self) -> "_History":
        return _History(self)

    def step_of(self, code: Code, times: int) -> Step:
        """Returns a step with values of its own. They stay the same where other steps are left out.

        ``times`` counts the steps of this code before it.
        """
        first, second = code
        number = (times * len(self._changes) + first) * len(self._changes) + second
        fields = {**self._changes[first], **self._changes[second]}
        if "mode" in fields:
            both = together(self._changes[first].get("mode", ""), fields["mode"])
            fields["mode"] = fitted(both, fields.get("dtype", self._circumstances.base.dtype))
        return replace(self._circumstances.base, **fields, seed=(self._subject.setting.seed + number) % 2**32)

    def check_time(self) -> None:
        """Raises OverError when time is over, or the process can't go on."""
        if self.fatal or self._clock() > self._end:
            raise OverError

    def show(self, violation: Violation, codes: Sequence[Code], steps: Sequence[Step]) -> NoReturn:
        """Raises an error with the fault, and gives the search for a shorter history its time."""
        if not self._shown:
            self._end = self._clock() + _SECONDS_TO_SHORTEN
        self._shown.append(ShownError(violation, codes, steps))
        raise self._shown[-1]

    def player(self) -> Player:
        """Returns a player on a fresh copy."""
        return Player(self._subject, self._copies)

    def is_new(self, violation: Violation, step: Step) -> bool:
        """True if the step's circumstances cause a violation: the same values keep the promise alone."""
        kept = (replace(step.alone, seed=0), violation.kind)
        if kept in self._others:
            return False
        if any(is_like(violation, other) for other in self.player().make(step.alone)):
            self._others.add(kept)
            return False
        return True

    def watch_first_call(self, seconds: float) -> None:
        """Makes no more copies if their first calls are slow."""
        if self.made and seconds > _SLOW_FIRST_CALL:
            self._copies.are_fresh = False


class _History:
    """One history on a fresh copy."""

    def __init__(self, run: _InTurn) -> None:
        self._run = run
        self._player = run.player()
        self._codes: list[Code] = []
        self._steps: list[Step] = []

    def make(self, code: Code) -> None:
        """Makes the next step. Raises the first fault that its circumstances cause, and OverError."""
        self._run.check_time()
        step = self._run.step_of(code, self._codes.count(code))
        self._codes.append(code)
        self._steps.append(step)
        begun = time.process_time()
        try:
            violations = self._player.make(step)
        except Exception as error:
            # The probe's own error, which is nothing to shrink.
            raise OverError from error
        # Garbage collection, an act beside calls, takes long in a large process.
        if len(self._steps) == 1 and step.act == "call":
            self._run.watch_first_call(time.process_time() - begun)
        self._run.made += 1
        self._run.fatal |= self._player.fatal
        self._run.unable = self._run.unable or self._player.unable
        for violation in violations:
            if self._player.fatal or self._run.is_new(violation, step):
                self._run.show(violation, self._codes, self._steps)

    def end(self) -> None:
        """Raises the fault of an output that is no longer what it was when it came."""
        overwritten = self._player.overwritten()
        if overwritten is not None:
            self._run.show(overwritten, self._codes, self._steps)
