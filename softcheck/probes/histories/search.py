"""Histories: calls in all circumstances, one after the other and at the same time, in one process.

Every output is judged when it comes, and must still be the same at the end. A broken promise is a finding if the same
values in the same layout keep it alone: on a fresh copy of the variant, in fresh memory, in no special mode. Histories
are an opening, in which every circumstance meets every other, and random ones. Whatever shows a fault is shortened, and
each of its steps made as ordinary as shows it still.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import msgspec
import numpy as np

from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.histories import at_once
from softcheck.probes.histories.modes import modes
from softcheck.probes.histories.player import Copies, Player
from softcheck.probes.histories.steps import JUMPS, Change, Step, circumstances
from softcheck.probes.outcome import Outcome
from softcheck.probes.predicate import Shape
from softcheck.probes.regime_map import other_sizes
from softcheck.variants.source import source_of

_BUDGET, _BUDGET_ON_GPU = 1400, 1200
"""Costs of the planned steps, as ``_Costs`` counts them, after which the remaining ones are left out."""
_BUDGET_ELSEWHERE, _BUDGET_ELSEWHERE_ON_GPU = 1600, 1500
"""The same for all histories at other sizes together."""
_TO_SHOW_AGAIN, _TO_SHORTEN, _TO_SIMPLIFY = 900, 2500, 900
"""Costs of the steps that look for the last ones that show a fault again, that leave some of these out, and that make them ordinary."""
_ELEMENTS, _ELEMENTS_ON_GPU = 1 << 13, 1 << 20
"""Elements of a call that cost as much as one program of an interpreted kernel, or as one more call on a GPU."""
_COMPILED = 15
"""Cost of a width in a dtype that is new on a GPU, where a kernel may be compiled for it."""
_CALM, _MOST_CALM = 20, 130
"""Ordinary calls in a row, and the largest number of a source that there are more of."""
_RANDOM, _RANDOM_IF_QUICK, _STEPS = 5, 2, 30
"""Random histories, the first of them of ordinary steps alone, and steps of each."""
_TOLD = 4
"""Calls at the beginning and at the end of a long history that a message tells."""


class Histories(Probe):
    """Checks that no call depends on those before and beside it, or on the modes around it."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns histories of calls in turn at one size and at others, and trials without a plan."""
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
        """Plays the histories of one trial until one shows a fault."""
        if isinstance(trial.parameters, Step):
            return _InTurn(subject, trial.parameters, _budget(subject, _BUDGET, _BUDGET_ON_GPU)).outcome()
        outcome: Outcome = trial.parameters(subject)
        return outcome


PROBE = Histories()


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
        base = replace(ordinary, rows=rows, columns=columns, contents=JUMPS)
        run = _InTurn(subject, base, budget / len(sizes), ordinary)
        outcome = run.outcome(seed=number, is_short=True)
        if outcome.violations or outcome.fatal:
            return outcome
        made, left_out, is_cut = made + run.made, left_out or outcome.skipped, is_cut or outcome.is_cut
    return Outcome(tried=tuple(sizes) if made else (), skipped=left_out, is_cut=is_cut)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A promise that the last of some steps breaks, or that an output breaks after it."""

    violation: Violation
    steps: tuple[Step, ...]


class _InTurn:
    """Plays the opening's first histories, random ones and the opening's others until one shows a fault."""

    def __init__(self, subject: Subject, base: Step, budget: float, beside: Step | None = None) -> None:
        setting = subject.setting
        self._subject, self._base = subject, base
        around = modes(on_gpu=setting.on_gpu, dtype=base.dtype, has_products=setting.has_products)
        self._circumstances = circumstances(setting, base, around, beside)
        self._copies = Copies(subject)
        self._others: set[tuple[Step, FindingKind]] = set()
        """Steps, without their seeds, that break a promise alone, which other probes look for."""
        self._costs = _Costs(setting)
        self._budget = self._left = budget
        self._planned = 0
        self.made = 0
        self.fatal = False
        self.unable: str | None = None
        """The reason why Triton's interpreter could not make some call."""

    def outcome(self, *, seed: int = 0, is_short: bool = False) -> Outcome:
        """Plays the histories that ``seed`` orders; if ``is_short``, the first two alone."""
        quick, seed = self._subject.setting.quick, self._subject.setting.seed + seed
        opening: list[list[tuple[Change, ...]]] = [
            [(change,) for change in each] for each in self._circumstances.opening(seed, self._calm_calls())
        ]
        first, rest = (opening[:2], []) if is_short else (opening[:5], [] if quick else opening[5:])
        drawn = [] if is_short else self._random(seed, _RANDOM_IF_QUICK if quick else _RANDOM)
        for history in (*first, *drawn, *rest):
            shown = self._played([self._step(*changes) for changes in history])
            if shown is not None:
                return self._outcome(violations=(self._shortened(shown),))
            if self.fatal:
                return self._outcome(skipped=self.unable)
            if self._left <= 0:
                left_out = f"some planned calls were left out: they cost over {self._budget:.0f} calls"
                return self._outcome(skipped=left_out, is_cut=True)
        return self._outcome(skipped=self.unable)

    def _outcome(
        self, *, violations: tuple[Violation, ...] = (), skipped: str | None = None, is_cut: bool = False
    ) -> Outcome:
        return Outcome(
            violations=violations,
            skipped=skipped,
            tried=((self._base.rows, self._base.columns),),
            fatal=self.fatal,
            is_cut=is_cut,
        )

    def _calm_calls(self) -> int:
        """Calls after which what a variant has learnt of its inputs may be settled: more than a number of its source, if it keeps anything."""
        source = source_of(self._subject.variant.function)
        numbers = source.sizes if source.keeps_state else ()
        return max([_CALM, *(number + 2 for number in numbers if number <= _MOST_CALM)])

    def _random(self, seed: int, count: int) -> list[list[tuple[Change, ...]]]:
        """Returns histories of steps in up to two circumstances each, of which some come again; the first is of ordinary steps."""
        rng, changes = np.random.default_rng([seed, count]), self._circumstances.changes
        found: list[list[tuple[Change, ...]]] = [[()] * _STEPS]
        for _ in range(count - 1):
            few = rng.integers(len(changes), size=(_STEPS // 2, 2))
            few[::2, 1] = 0
            found.append([(changes[a], changes[b]) for a, b in few[rng.integers(len(few), size=_STEPS)].tolist()])
        return found

    def _step(self, *changes: Change) -> Step:
        """Returns the next planned step, with values of its own."""
        self._planned += 1
        return self._base.changed(*changes, seed=(self._subject.setting.seed + self._planned) % 2**32)

    def _played(self, steps: Iterable[Step], like: Violation | None = None) -> _Shown | None:
        """Plays steps on a fresh copy until one breaks a promise that its circumstances cause, or an output does in the end.

        Ends where the budget is spent. With a violation that it is to be ``like``, a step but the last may break any promise.
        """
        player, made = Player(self._subject, self._copies), list[Step]()
        for step in steps:
            if self.fatal or self._left <= 0:
                return None
            self._left -= self._costs.of(step)
            made.append(step)
            violations = player.make(step)
            self.made += like is None
            self.fatal |= player.fatal
            self.unable = self.unable or player.unable
            for violation in violations:
                if (like is None or _is_like(violation, like)) and (player.fatal or self._is_new(violation, step)):
                    return _Shown(violation, tuple(made))
        overwritten = None if self.fatal else player.overwritten()
        is_due = overwritten is not None and (like is None or _is_like(overwritten, like))
        return _Shown(overwritten, tuple(made)) if overwritten is not None and is_due else None

    def _is_new(self, violation: Violation, step: Step) -> bool:
        """True if the step's circumstances cause a violation: the same values keep the promise alone."""
        kept = (replace(step.alone, seed=0), violation.kind)
        if kept in self._others:
            return False
        if any(_is_like(violation, other) for other in Player(self._subject, self._copies).make(step.alone)):
            self._others.add(kept)
            return False
        return True

    def _shortened(self, shown: _Shown) -> Violation:
        """Returns a fault, told by as few and simple steps as show it."""
        if self.fatal:
            return _told(shown, varies=False)
        like, again, count = shown.violation, None, 1
        self._left = _TO_SHOW_AGAIN
        # The last steps alone are tried first, since most faults need few.
        while again is None and count < 2 * len(shown.steps):
            again, count = self._played(shown.steps[-count:], like), 2 * count
        if again is None:
            return _told(shown, varies=True)
        again = self._reduced(again, like, _of_fewer_steps, _TO_SHORTEN)
        again = self._reduced(again, like, partial(_of_simpler_steps, base=self._base), _TO_SIMPLIFY)
        return _told(again, varies=False)

    def _reduced(
        self,
        shown: _Shown,
        like: Violation,
        simpler: Callable[[Sequence[Step], int], Iterable[Sequence[Step]]],
        budget: float,
    ) -> _Shown:
        """Takes the first simpler history that shows the fault in place of one, at each place in turn."""
        self._left, place = budget, 0
        while place < len(shown.steps) and self._left > 0 and not self.fatal:
            found = (self._played(steps, like) for steps in simpler(shown.steps, place))
            better = next((each for each in found if each is not None), None)
            if better is None:
                place += 1
                while 0 < place < len(shown.steps) and _is_equal(shown.steps[place], shown.steps[place - 1]):
                    # Of equal steps in a row of which the first is needed the others are taken to be.
                    place += 1
            else:
                shown = better
        return shown


def _of_fewer_steps(steps: Sequence[Step], place: int) -> Iterable[Sequence[Step]]:
    """Yields histories without the steps from a place on, without half of these, and so on to one; the last step stays.

    Of equal steps in a row either all are left out, or one.
    """
    count = len(steps) - 1 - place
    while count > 0:
        if count == 1 or not _is_equal(steps[place + count - 1], steps[place + count]):
            yield [*steps[:place], *steps[place + count :]]
        count //= 2


def _of_simpler_steps(steps: Sequence[Step], place: int, base: Step) -> Iterable[Sequence[Step]]:
    """Yields histories in which the step at a place, with all that are equal to it, has one circumstance fewer."""
    for simpler in steps[place].simpler(base):
        yield [replace(simpler, seed=each.seed) if _is_equal(each, steps[place]) else each for each in steps]


def _is_equal(one: Step, other: Step) -> bool:
    """True if two steps differ in nothing but their values."""
    return replace(one, seed=0) == replace(other, seed=0)


def _is_like(one: Violation, other: Violation) -> bool:
    """True if two violations say the same: a wrong value, or the same other kind."""
    return one.kind is other.kind or (one.kind in WRONG_KINDS and other.kind in WRONG_KINDS)


def _told(shortest: _Shown, *, varies: bool) -> Violation:
    """Returns the violation of a history, with the history in its words; one that ``varies`` did not show again."""
    shown = shortest.violation
    is_wrong = shown.kind in WRONG_KINDS
    *before, last = map(str, shortest.steps[-1:] if varies else shortest.steps)
    words = f"{last} is wrong, and right alone" if is_wrong else last
    if varies:
        words += f", as call {len(shortest.steps)} of a history that passes when it is played again"
    elif before:
        words += f", after {_in_order(before)}"
    if is_wrong and (before or varies or shortest.steps[-1].failing):
        shown = msgspec.structs.replace(shown, kind=FindingKind.NONDETERMINISTIC, share=None)
    return msgspec.structs.replace(shown, message=f"{words}: {shown.message}")


def _in_order(steps: Sequence[str]) -> str:
    """The steps in words; equal ones that follow each other are counted, and of many the middle is left out."""
    runs = [(words, len(list(run))) for words, run in groupby(steps)]
    found = [words if count == 1 else f"{count} times {words}" for words, count in runs]
    if len(found) > 2 * _TOLD:
        found[_TOLD:-_TOLD] = [f"{len(found) - 2 * _TOLD} other calls"]
    return "; ".join(found)
