"""Histories: calls in all circumstances, one after the other and at the same time, in one process.

Every output is judged when it comes, and must still be the same at the end. A broken promise is a finding if the same
values in the same layout keep it alone: on a fresh copy of the variant, in fresh memory, in no special mode. Histories
are an opening, in which every circumstance meets every other, and random ones. Hypothesis draws the random ones, and
shrinks whatever shows a fault.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

import hypothesis
import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.probes import at_once
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.history_words import ShownError, is_like, told
from softcheck.probes.machine import OverError, play_random, shorten
from softcheck.probes.modes import fitted, modes, together
from softcheck.probes.other_sizes import other_sizes
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.playing import Copies, Player
from softcheck.probes.shape_plan import Shape
from softcheck.probes.steps import Code, Step, circumstances
from softcheck.variants.source import source_of

_BUDGET, _BUDGET_ON_GPU = 1400, 1200
"""Costs of the planned steps, as ``_Costs`` counts them, after which the remaining ones are left out."""
_BUDGET_ELSEWHERE, _BUDGET_ELSEWHERE_ON_GPU = 1600, 1500
"""The same for all histories at other sizes together."""
_TO_SHORTEN = 900
"""Cost of the steps that look for the shortest history of a fault."""
_ELEMENTS, _ELEMENTS_ON_GPU = 1 << 13, 1 << 20
"""Elements of a call that cost as much as one program of an interpreted kernel, or as one more call on a GPU."""
_COMPILED = 15
"""Cost of a width in a dtype that is new on a GPU, where a kernel may be compiled for it."""
_CALM, _MOST_CALM = 20, 130
"""Ordinary calls in a row, and the largest number of a source that there are more of."""
_RANDOM, _RANDOM_IF_QUICK = 5, 2
"""Random histories, the first of them of ordinary steps alone."""


class _Histories(Probe):
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
            return _InTurn(subject, trial.parameters, _budget(subject, _BUDGET, _BUDGET_ON_GPU)).outcome()
        outcome: Outcome = trial.parameters(subject)
        return outcome

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        made = sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done)
        return msgspec.structs.replace(super().conclude(done), trials=made)


PROBE = _Histories()


def _budget(subject: Subject, interpreted: int, on_gpu: int) -> float:
    return (on_gpu if subject.setting.on_gpu else interpreted) * subject.setting.time_share


class _Costs:
    """Costs of steps: one for a call, more for its programs and elements, the same on any machine, idle or busy."""

    def __init__(self, setting: Setting) -> None:
        self._on_gpu, self._call = setting.on_gpu, setting.cost_of_call
        self._compiled: set[tuple[int, str]] = set()

    def of(self, step: Step) -> float:
        """Returns the cost of the next step."""
        elements = step.rows * step.columns
        if not self._on_gpu:
            return self._call + step.rows + elements / _ELEMENTS
        key = step.columns, step.dtype
        is_new = key not in self._compiled
        self._compiled.add(key)
        return 1 + is_new * _COMPILED + elements / _ELEMENTS_ON_GPU


def _elsewhere(subject: Subject, ordinary: Step) -> Outcome:
    """Plays two short histories at each of some other sizes, between calls of the ordinary one, on rows that jump."""
    sizes = other_sizes(subject, Shape(ordinary.rows, ordinary.columns))
    budget = _budget(subject, _BUDGET_ELSEWHERE, _BUDGET_ELSEWHERE_ON_GPU)
    made, left_out, is_cut = 0, None, False
    for number, (rows, columns) in enumerate(sizes):
        base = replace(ordinary, rows=rows, columns=columns, contents="jumps")
        run = _InTurn(subject, base, budget / len(sizes), ordinary)
        outcome = run.outcome(seed=number, is_short=True)
        if outcome.violations or outcome.fatal:
            return outcome
        made, left_out, is_cut = made + run.made, left_out or outcome.skipped, is_cut or outcome.is_cut
    return Outcome(tried=(made,), skipped=left_out, is_cut=is_cut)


class _InTurn:
    """Plays the opening's first histories, random ones and the opening's others until one shows a fault."""

    def __init__(self, subject: Subject, base: Step, budget: float, beside: Step | None = None) -> None:
        setting = subject.setting
        self._subject = subject
        around = modes(on_gpu=setting.on_gpu, dtype=base.dtype, has_products=setting.has_products)
        self._circumstances = circumstances(setting, base, around, beside)
        self._changes = self._circumstances.changes
        self._copies = Copies(subject)
        self._others: set[tuple[Step, FindingKind]] = set()
        """Steps, without their seeds, that break a promise alone, which other probes look for."""
        self._costs = _Costs(setting)
        self._budget = self._left = budget
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
        plays: list[Callable[[], None]] = [partial(self._play, each) for each in (first, second)]
        if not is_short:
            plays += [partial(self._play, each) for each in (typed, calm, rewriting)]
            plays.append(lambda: play_random(self._begin, few, setting.seed, count))
            plays += [] if setting.quick else [partial(self._play, each) for each in rest]
        is_over = False
        for play in plays:
            is_over = not self._run(play)
            if self._shown or self.fatal:
                return self._found()
            if is_over:
                break
        left_out = f"some planned calls were left out: they cost over {self._budget:.0f} calls"
        return Outcome(
            skipped=left_out if is_over else self.unable, tried=(self.made,), fatal=self.fatal, is_cut=is_over
        )

    def _found(self) -> Outcome:
        shown = (self._shortened(self._shown[0]),) if self._shown else ()
        return Outcome(violations=shown, skipped=None if shown else self.unable, tried=(self.made,), fatal=self.fatal)

    def _calm_calls(self) -> int:
        """Calls after which what a variant has learnt of its inputs may be settled: more than a number of its source, if it keeps anything."""
        source = source_of(self._subject.variant.function)
        numbers = source.sizes if "history" in source.circumstances else ()
        return max([_CALM, *(number + 2 for number in numbers if number <= _MOST_CALM)])

    def _play(self, history: Sequence[Code]) -> None:
        """Plays one history to its end. Raises its first fault, and OverError."""
        played = self._begin()
        for code in history:
            played.make(code)
        played.end()

    def _run(self, play: Callable[[], None]) -> bool:
        """Plays. Returns False if the budget is spent before the end; a fault is in ``_shown``."""
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
            return told(shown, varies=not self.fatal)
        self._run(lambda: shorten(self._begin, len(self._changes), codes[-count:]))
        shortest = min(self._shown, key=lambda each: (len(each.steps), sum(len(str(step)) for step in each.steps)))
        return told(self._without_idle_steps(shortest), varies=False)

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
        self._run(partial(self._play, history))
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

    def pay(self, step: Step) -> None:
        """Raises OverError when the budget is spent, or the process can't go on."""
        if self.fatal or self._left <= 0:
            raise OverError
        self._left -= self._costs.of(step)

    def show(self, violation: Violation, codes: Sequence[Code], steps: Sequence[Step]) -> NoReturn:
        """Raises an error with the fault, and gives the search for a shorter history its budget."""
        if not self._shown:
            self._left = _TO_SHORTEN
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


class _History:
    """One history on a fresh copy."""

    def __init__(self, run: _InTurn) -> None:
        self._run = run
        self._player = run.player()
        self._codes: list[Code] = []
        self._steps: list[Step] = []

    def make(self, code: Code) -> None:
        """Makes the next step. Raises the first fault that its circumstances cause, and OverError."""
        step = self._run.step_of(code, self._codes.count(code))
        self._run.pay(step)
        self._codes.append(code)
        self._steps.append(step)
        try:
            violations = self._player.make(step)
        except Exception as error:
            # The probe's own error, which is nothing to shrink.
            raise OverError from error
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
