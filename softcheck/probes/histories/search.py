"""Histories: calls in all circumstances, one after the other and at the same time, in one process.

Every output is judged when it comes, and must still be the same at the end. A broken promise is a finding if the same
values in the same layout keep it alone: on a fresh copy of the variant, in fresh memory, in no special mode. Histories
are an opening, in which every circumstance meets every other, and random ones. Whatever shows a fault is shortened, and
each of its steps made as ordinary as shows it still.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, groupby, takewhile

import msgspec
import numpy as np

from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.histories.modes import GRAPH, STREAMS, THREADS
from softcheck.probes.histories.player import Copies, Player
from softcheck.probes.histories.steps import JUMPS, Change, Step, circumstances
from softcheck.probes.outcome import Outcome
from softcheck.probes.shape_plan import numbers_of
from softcheck.variants.source import launches_kernels, source_of

_BUDGETS, _BUDGETS_ON_GPU = (
    {"in-turn": 950, "pairs": 450, "elsewhere": 1600},
    {"in-turn": 800, "pairs": 600, "elsewhere": 1500},
)
"""Costs of the planned steps of a trial, as ``_Playing`` counts them, after which the remaining ones are left out."""
_TO_SHOW_AGAIN, _TO_SHORTEN, _TO_SIMPLIFY = 900, 2500, 900
"""Costs of the steps that look for the last ones that show a fault again, that leave some of these out, and that make them ordinary."""
_ELEMENTS, _ELEMENTS_ON_GPU = 1 << 13, 1 << 20
"""Elements of a call that cost as much as one program of an interpreted kernel, or as one more call on a GPU."""
_COMPILED = 15
"""Cost of a width in a dtype that is new on a GPU, where a kernel may be compiled for it."""
_CALM, _MOST_CALM = 20, 130
"""Ordinary calls in a row, and the largest number of a source that there are more of."""
_RANDOM, _RANDOM_IF_QUICK, _STEPS = 4, 1, 30
"""Random histories, and steps of each."""
_COLUMNS, _ROWS_OF_THREADS, _ROWS_OF_STREAMS = 77, 64, 2048
"""Sizes of calls that are made again and again, and beside others."""
_MANY, _MANY_INTERPRETED, _FEWEST = 1000, 130, 8
"""Equal calls in a row: of any function, of one whose kernels Triton's interpreter runs, and at least of such a one in a run on many variants."""
_BESIDE_THREADS, _BESIDE_STREAMS = 16, 12
"""Steps beside other threads and streams."""
_ROWS = 8
"""Rows of wide calls elsewhere."""
_MOST, _MOST_ON_GPU = (130, 8193, 2**17), (70_000, 65_537, 2**24)
"""The most rows, columns and elements of calls elsewhere."""
_TOLD = 4
"""Calls at the beginning and at the end of a long history that a message tells."""


Planned = tuple[Step, Sequence[Change]]
"""An ordinary step, and the circumstances of each step of a history of such ones."""


class Histories(Probe):
    """Checks that no call depends on those before and beside it, or on the modes around it."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns histories of calls in turn at one size and at others, of many equal calls, and of calls at the same time."""
        shapes = [(3, 129), (34, 1032)] if setting.on_gpu else [(2, 129)]
        chosen = [(rows, columns) for rows, columns in shapes if setting.takes(columns)] or [(2, 1)]
        one = Step(rows=1, columns=1, dtype=setting.dtype, function=setting.operation.name)
        bases = [replace(one, rows=rows, columns=columns) for rows, columns in chosen[: 1 if setting.quick else None]]
        found = [Trial(f"in-turn-{base.rows}x{base.columns}", ("in-turn", partial(_in_turn, base))) for base in bases]
        if not setting.quick:
            found += [Trial(f"pairs-{base.rows}x{base.columns}", ("pairs", partial(_in_pairs, base))) for base in bases]
            found.append(Trial("in-turn-elsewhere", ("elsewhere", partial(_elsewhere, bases[0]))))
        again = ["many-calls", "threads", *(["streams"] if setting.on_gpu else [])]
        return [*found, *(Trial(each, (None, partial(_again, each, one))) for each in again if setting.takes(_COLUMNS))]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Plays the histories of one trial until one shows a fault."""
        budget, plan = trial.parameters
        if trial.label == "threads" and _is_interpreted(subject):
            return Outcome(skipped="calls from several threads at once: Triton's interpreter can't make them")
        return _Playing(subject, budget).of(plan(subject))


PROBE = Histories()


def _in_turn(base: Step, subject: Subject) -> Iterator[Planned]:
    """Yields the opening's first histories and random ones, which are of steps in up to two circumstances each, the first of ordinary ones."""
    setting, around = subject.setting, circumstances(subject.setting, base)
    source = source_of(subject.variant.function)
    # What a variant has learnt of its inputs may be settled after more calls than a number of its source.
    numbers = source.sizes if source.keeps_state else ()
    calm = max([_CALM, *(number + 2 for number in numbers if number <= _MOST_CALM)])
    ordinary: list[Change] = [{}] * _STEPS
    yield from ((base, each) for each in (*around.in_a_row(setting.seed), *around.special(calm), ordinary))
    histories = _RANDOM_IF_QUICK if setting.quick else _RANDOM
    rng, changes = np.random.default_rng([setting.seed, histories]), around.changes
    for _ in range(histories):
        few = rng.integers(len(changes), size=(_STEPS // 2, 2))
        few[::2, 1] = 0
        yield base, [{**changes[a], **changes[b]} for a, b in few[rng.integers(len(few), size=_STEPS)].tolist()]


def _in_pairs(base: Step, subject: Subject) -> Iterator[Planned]:
    """Yields the opening's histories in which every circumstance comes right after every other."""
    yield from ((base, each) for each in circumstances(subject.setting, base).in_pairs(subject.setting.seed))


def _elsewhere(ordinary: Step, subject: Subject) -> Iterator[Planned]:
    """Yields two short histories at each of some other sizes, between calls of the ordinary one, on rows that jump."""
    sizes = enumerate(_other_sizes(subject, ordinary), subject.setting.seed)
    found: list[tuple[Step, list[list[Change]]]] = []
    for seed, (rows, columns) in sizes:
        base = replace(ordinary, rows=rows, columns=columns, contents=JUMPS)
        found.append((base, circumstances(subject.setting, base, ordinary).in_a_row(seed)))
    yield from ((base, histories[place]) for place in (0, 1) for base, histories in found)


def _other_sizes(subject: Subject, ordinary: Step) -> list[tuple[int, int]]:
    """Returns sizes at which a wrapper may take another path: just beyond numbers of its source, as columns, rows or elements, or within one.

    What it keeps, or how it asks for a mode or a thread, may differ between its paths.
    """
    setting, source, usual = subject.setting, source_of(subject.variant.function), ordinary.columns
    most_rows, most_columns, most = _MOST_ON_GPU if setting.on_gpu else _MOST
    most //= setting.operation.per_logit(most_columns)
    numbers = numbers_of(source.sizes_for(setting.fmt.itemsize), largest=most_rows)
    kinds: list[tuple[int, list[tuple[int, int]]]] = [
        (3, [(_ROWS, n + 1) for n in numbers if n >= usual]),
        (1, [(_ROWS, n) for n in numbers if 2 < n < usual]),
        (1, [(n + 1, usual) for n in numbers if n >= _ROWS]),
        (1, [(n // usual + 1, usual) for n in source.sizes if n >= _ROWS * usual]),
    ]
    rng, found = np.random.default_rng([source.digest, setting.seed, 1]), list[tuple[int, int]]()
    for few, sizes in kinds:
        fitting = [
            (m, n) for m, n in sizes if m <= most_rows and n <= most_columns and m * n <= most and setting.takes(n)
        ]
        found += [fitting[place] for place in sorted(rng.permutation(len(fitting))[:few].tolist())]
    return list(dict.fromkeys(found))


def _again(label: str, one: Step, subject: Subject) -> Iterator[Planned]:
    """Yields a history of equal calls on the same values: of so many that a counter runs over, or beside other threads or streams."""
    setting = subject.setting
    many = _MANY_INTERPRETED * min(1.0, setting.time_share) if _is_interpreted(subject) else _MANY
    # Each row of a mean is a call of its own.
    rows_of_threads = 2 if setting.has_row_calls else int(_ROWS_OF_THREADS / setting.cost_of_call)
    mode, rows, times = {
        "many-calls": ("", 1, max(_FEWEST, many / setting.cost_of_call)),
        "threads": (THREADS, rows_of_threads, _BESIDE_THREADS / setting.cost_of_call),
        "streams": (STREAMS, setting.fewer(_ROWS_OF_STREAMS, _COLUMNS), _BESIDE_STREAMS),
    }[label]
    same = {"mode": mode, "seed": setting.seed % 2**32}
    yield replace(one, rows=rows, columns=_COLUMNS), [same] * max(1, int(times))


def _is_interpreted(subject: Subject) -> bool:
    """True if a call runs kernels under Triton's interpreter."""
    return not subject.setting.on_gpu and launches_kernels(subject.variant.function)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A promise that the last of some steps breaks, or that an output breaks after it."""

    violation: Violation
    steps: Sequence[Step]


class _Playing:
    """Plays histories until one shows a fault, and looks for the shortest that shows it, within a budget that is named."""

    def __init__(self, subject: Subject, budget: str | None) -> None:
        setting = subject.setting
        self._subject, self._copies = subject, Copies(subject)
        self._others: set[tuple[Step, FindingKind]] = set()
        """Steps, without their seeds, that break a promise alone, which other probes look for."""
        self._compiled: set[tuple[int, str]] = set()
        """Widths in a dtype that kernels are compiled for on a GPU."""
        budgets = _BUDGETS_ON_GPU if setting.on_gpu else _BUDGETS
        self._budget = self._left = np.inf if budget is None else setting.time_share * budgets[budget]
        self._tried: dict[tuple[int, int], None] = {}
        """Rows and columns of planned steps that were made."""
        self._fatal = False
        self._unable: str | None = None
        """The reason why Triton's interpreter could not make some call."""

    def of(self, plans: Iterable[Planned]) -> Outcome:
        """Plays one history after the other, each step with values of its own."""
        seeds = count(self._subject.setting.seed + 1)
        for base, history in plans:
            shown = self._played([base.changed(change, next(seeds) % 2**32) for change in history])
            if shown is not None:
                return self._outcome(self._shortened(shown, base))
            if self._left <= 0 or self._fatal:
                break
        if self._left <= 0 and not self._fatal:
            self._unable = f"some planned calls were left out: they cost over {self._budget:.0f} calls"
            return msgspec.structs.replace(self._outcome(), is_cut=True)
        return self._outcome()

    def _outcome(self, *found: Violation) -> Outcome:
        skipped = None if found else self._unable
        return Outcome(violations=found, skipped=skipped, tried=(*self._tried,), fatal=self._fatal)

    def _cost(self, step: Step) -> float:
        """Returns the cost of the next step: one for a call, more for its programs and elements, the same on any machine, idle or busy."""
        setting, elements = self._subject.setting, step.rows * step.columns
        if not setting.on_gpu:
            return setting.cost_of_call + step.rows + elements / _ELEMENTS
        before = len(self._compiled)
        self._compiled.add((step.columns, step.dtype))
        return 1 + _COMPILED * (len(self._compiled) - before) + elements / _ELEMENTS_ON_GPU

    def _played(self, steps: Iterable[Step], like: Violation | None = None) -> _Shown | None:
        """Plays steps on a fresh copy until one breaks a promise that its circumstances cause, or an output does in the end.

        Ends where the budget is spent. With a violation that it is to be ``like``, a step but the last may break any promise.
        """
        player, made = Player(self._subject, self._copies), list[Step]()
        for step in steps:
            if self._fatal or self._left <= 0:
                return None
            self._left -= self._cost(step)
            made.append(step)
            violations = player.make(step)
            if like is None:
                self._tried[step.rows, step.columns] = None
            self._fatal |= player.fatal
            self._unable = self._unable or player.unable
            for violation in violations:
                if (like is None or _is_like(violation, like)) and (player.fatal or self._is_new(violation, step)):
                    return _Shown(violation, made)
        overwritten = None if self._fatal else player.overwritten()
        if overwritten is None or not (like is None or _is_like(overwritten, like)):
            return None
        return _Shown(overwritten, made)

    def _is_new(self, violation: Violation, step: Step) -> bool:
        """True if the step's circumstances cause a violation: the same values keep the promise alone."""
        kept = (replace(step.alone, seed=0), violation.kind)
        if kept in self._others:
            return False
        if any(_is_like(violation, other) for other in Player(self._subject, self._copies).make(step.alone)):
            self._others.add(kept)
            return False
        return True

    def _shortened(self, shown: _Shown, base: Step) -> Violation:
        """Returns a fault, told by as few and simple steps as show it."""
        if self._fatal:
            return _told(shown, varies=False)
        like, again, last = shown.violation, None, 1
        self._left = max(_TO_SHOW_AGAIN, 3 * sum(map(self._cost, shown.steps)))
        # The last steps alone are tried first, since most faults need few.
        while again is None and last < 2 * len(shown.steps):
            again, last = self._played(shown.steps[-last:], like), 2 * last
        if again is None:
            return _told(shown, varies=True)
        for simpler, budget in ((_of_fewer_steps, _TO_SHORTEN), (_of_simpler_steps, _TO_SIMPLIFY)):
            # The first simpler history that shows the fault stands in place of one, at each place in turn.
            self._left, place = budget, 0
            while place < len(again.steps) and self._left > 0 and not self._fatal:
                tried = (self._played(steps, like) for steps in simpler(again.steps, place, base))
                better = next(filter(None, tried), None)
                if better is None:
                    # Of equal steps in a row of which the first is needed the others are taken to be.
                    place += len(list(takewhile(partial(_is_equal, again.steps[place]), again.steps[place:])))
                again = better or again
        return _told(again, varies=False)


def _of_fewer_steps(steps: Sequence[Step], place: int, _base: Step) -> Iterable[Sequence[Step]]:
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
    shown, last = shortest.violation, shortest.steps[-1]
    is_wrong = shown.kind in WRONG_KINDS
    before = [] if varies else [str(step) for step in shortest.steps[:-1]]
    words = f"{last} is wrong, and right alone" if is_wrong else str(last)
    if varies:
        words += f", as call {len(shortest.steps)} of a history that passes when it is played again"
    elif before:
        words += f", after {_in_order(before)}"
    if is_wrong and (before or varies or last.failing or last.mode in {THREADS, STREAMS, GRAPH}):
        shown = msgspec.structs.replace(shown, kind=FindingKind.NONDETERMINISTIC, share=None)
    return msgspec.structs.replace(shown, message=f"{words}: {shown.message}")


def _in_order(steps: Sequence[str]) -> str:
    """The steps in words; equal ones that follow each other are counted, and of many the middle is left out."""
    runs = [(words, len(list(run))) for words, run in groupby(steps)]
    found = [words if count == 1 else f"{count} times {words}" for words, count in runs]
    if len(found) > 2 * _TOLD:
        found[_TOLD:-_TOLD] = [f"{len(found) - 2 * _TOLD} other calls"]
    return "; ".join(found)
