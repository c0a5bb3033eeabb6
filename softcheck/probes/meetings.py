"""Calls in which circumstances meet: every two of them, and every three of those on which kernels branch.

The axes are those of ``softcheck.probes.space``. A call that fails is made again with one circumstance after the other as it
usually is, until none can be left out: what remains is the finding. Calls are counted, not timed, so that the same ones are made on
any machine.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain, combinations, islice
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits
from softcheck.calling.call import call_on_device, place
from softcheck.calling.operands import given, inputs_of
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, ordinary_rows, prefixed
from softcheck.probes.histories.player import in_vain
from softcheck.probes.operand_moves import TAKEN_ONCE
from softcheck.probes.options import has_one_meaning, in_words
from softcheck.probes.outcome import NOTHING_TO_TRY, Conclusion, Outcome, Shown
from softcheck.probes.registry import Effort, Slice
from softcheck.probes.space import axes as ax
from softcheck.probes.space import contents
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.axes import WaySpace
from softcheck.probes.space.backwards import Attempted, is_torchs_own, not_asked
from softcheck.probes.space.calls import OPERANDS, with_leaves
from softcheck.probes.space.output_gradients import VARYING
from softcheck.probes.space.plan import Plan
from softcheck.probes.space.way import VALUES, Way, WayAxis
from softcheck.probes.tuning import offered
from softcheck.variants.adapt import Adapted
from softcheck.variants.forms import parts_of

_NONE_CARRIED = (
    "the output carries none, and --backward or backward=True promises one: launch the kernel in the forward of a "
    "torch.autograd.Function that has a backward, or leave the promise out"
)
_PARTS, _PARTS_ON_GPU = 4, 8
"""Trials, each of every so-manieth call of the plan. Beside a GPU there are more cores, which compile and judge at once."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Calls of a plan, and combinations of values for which code is compiled anew."""

    calls: int
    slow: int
    """Calls where Triton's interpreter runs a program for each head and block of queries, and where torch.compile compiles."""
    compilations: int
    """Of Triton kernels, which take some 0.25 s each, on a GPU."""
    torch_compilations: int
    """Of functions that torch.compile compiles."""


BUDGETS: Mapping[Effort, Budget] = {
    "quick": Budget(calls=24, slow=24, compilations=12, torch_compilations=3),
    "normal": Budget(calls=240, slow=144, compilations=80, torch_compilations=8),
    "thorough": Budget(calls=1500, slow=480, compilations=480, torch_compilations=64),
}
"""Budgets by effort. A normal one has as many calls as every two values need, and for some of the threes."""
_OF_PAIRS = 1.25
"""Calls for each pair of values of the two longest axes, so that all other pairs find a place in them."""
_MORE = 1.5
"""Times as many calls as these that a plan may have, where two values have not met."""
SOUGHT, _SOUGHT_NUMBERS = 0.5, 2_000_000
"""Ways in which conditions would come out together, as a share of those of the plan, and the first of their random numbers."""
_HALVINGS = 8
"""Calls that look for the least size at which a meeting fails."""
_OF_DIMENSIONS = (".dim()", ".ndim", "shape[:-1]", "reshape(-1", "view(-1", "flatten(")
"""Parts of code that takes tensors of any number of dimensions; other code may be right on some by chance."""
_WIDE = 1000
_SMALL = (2, 18)
"""A shape within a tile, which a causal mask takes for more than one query of more than one key."""
_PLAIN_NUMBERS = 1_000_000
"""Random numbers of the first part's plain call, beyond those of any plan."""
_FEW = 3
"""Circumstances of a meeting, its random numbers among them, of which no two are left out at once."""
_MOST_FOUND = 3
"""Meetings after which a trial ends."""


class Meetings(Probe):
    """Checks calls in circumstances that meet; of a slice, in those of some axes, with all others plain."""

    def __init__(self, part: Slice | None = None) -> None:
        self._part = part
        self._only = frozenset() if part is None else frozenset({*part.own, *part.beside})
        self._planned: tuple[object, list[Way], str | None] | None = None
        """The last plan, whose parts are trials one after the other, and what it leaves out."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns the parts of a plan, or the one way that is asked for."""
        if not setting.takes(1):
            return []
        if setting.axis is not None:
            return [Trial(setting.axis or "plain", setting.seed)]
        parts = _PARTS_ON_GPU if setting.on_gpu else _PARTS
        return [Trial(f"part/{number + 1}-of-{parts}", (number, parts, setting.seed)) for number in range(parts)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes the calls of one part, or one call."""
        space = _space_of(subject, self._only)
        if isinstance(space, Outcome):
            is_told = space.violations and isinstance(trial.parameters, tuple) and trial.parameters[0]
            return Outcome() if is_told else space
        own = self._part.own if self._part is not None else ("",)
        # Of all operands' layouts one begins as they do.
        if not any(axis.name.startswith(own) for axis in space.axes):
            return Outcome(skipped=f"{NOTHING_TO_TRY}has no other value of {' or '.join(own)}")
        if not isinstance(trial.parameters, tuple):
            part = _Part(space, Attempts(space, trial.parameters), is_asked=True)
            return part.of_one(Way.parse(trial.label.removeprefix("plain"), space.axes))
        number, parts, seed = trial.parameters
        plain, attempts = Way(((VALUES, str(_PLAIN_NUMBERS + number)),)), Attempts(space, seed)
        ways, left_out = self._plan(space, seed)
        outcome = _Part(space, attempts, plain).of(ways[number::parts])
        return msgspec.structs.replace(
            outcome,
            varied=tuple(sorted(attempts.varied)),
            note=next(iter(attempts.notes), space.note or left_out),
            properties={"shared_masks": all(attempts.shared_masks)} if attempts.shared_masks else {},
        )

    def calls(self, subject: Subject, trials: Sequence[Trial]) -> Sequence[str]:
        """Returns the ways of the plan, and what it leaves out."""
        if not trials or subject.setting.axis is not None:
            return super().calls(subject, trials)
        space = _space_of(subject)
        if isinstance(space, Outcome):
            return ["none: a plain call has no answer"]
        ways, left_out = self._plan(space, trials[0].parameters[-1])
        return [*(str(way) or "plain" for way in ways), *filter(None, [left_out])]

    def _plan(self, space: WaySpace, seed: int) -> tuple[list[Way], str | None]:
        """Returns the ways of a plan, and words for what it leaves out."""
        setting = space.subject.setting
        only, of_operands = self._only, ax.OPERAND in self._only
        axes = tuple(
            a for a in space.axes if not only or a.name in only or (of_operands and a.name.startswith(ax.OPERAND))
        )
        planned = tuple(axis for axis in axes if axis.is_planned)
        budget = BUDGETS[setting.effort]
        calls = budget.slow
        is_slow = space.is_compiled_by_torch or (setting.has_heads and not setting.on_gpu)
        if not is_slow:
            first, second, *_ = sorted((1, 1, *(len(axis.values) for axis in planned)), reverse=True)
            calls = max(budget.calls, int(_OF_PAIRS * first * second) if setting.effort != "quick" else 0)
        compilations = budget.compilations if setting.on_gpu else None
        compilations = budget.torch_compilations if space.is_compiled_by_torch else compilations
        key = axes, calls, seed, space.source.digest
        if self._planned is None or self._planned[0] != key:
            plan = Plan(planned, space.excluded, key[2:], triples=not setting.quick, compilations=compilations)
            names = {axis.name for axis in axes}
            fits = (way for way in space.always if names.issuperset(name for name, _ in way.values))
            always = [] if setting.quick else [*fits]
            ways = [*always, *plan.ways(calls, calls if is_slow else int(_MORE * calls))]
            left_out = plan.left_out()
            self._planned = key, ways, left_out and f"of {len(ways)} calls, {left_out}"
        return self._planned[1:]

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one finding for each set of axes that meet, the way of fewest values, unless fewer of these axes show one.

        Gradients that are wrong are told beside answers that are.
        """
        shown = [
            Shown(way, violation, trial=trial.label)
            for trial, outcome in done
            for way, violation in zip(
                outcome.ways or (trial.label,) * len(outcome.violations), outcome.violations, strict=True
            )
        ]
        kept: list[tuple[frozenset[str], Shown]] = []
        for each in sorted(shown, key=lambda each: (each.label.count(","), len(each.label), each.label)):
            axes = frozenset(part.partition("=")[0] for part in each.label.split(",")) - {VALUES}
            is_of_gradient = each.violation.kind is FindingKind.WRONG_GRADIENT
            alike = (
                fewer for fewer, other in kept if (other.violation.kind is FindingKind.WRONG_GRADIENT) is is_of_gradient
            )
            if not any(fewer <= axes for fewer in alike):
                kept.append((axes, each))
        return self.concluded(done, [each for _, each in kept])


PROBE = Meetings()


@dataclass
class _Part:
    """The calls of one trial, and the meetings that are known to fail."""

    space: WaySpace
    attempts: Attempts
    plain: Way = field(default_factory=Way)
    """The plain call, with random numbers of its own."""
    is_asked: bool = False
    """True for one call that is asked for, whatever the plain one gives."""

    def __post_init__(self) -> None:
        self._known: list[Way] = []
        self._found: list[tuple[Way, Violation]] = []
        self._axes = {axis.name: axis for axis in self.space.axes}

    def of(self, ways: Sequence[Way]) -> Outcome:
        """Makes the calls of the ways, and ends where what a call left behind makes the plain one wrong."""
        if not self.is_asked and not self._is_right(self.plain):
            return Outcome(skipped="the plain call is wrong or refused, which is for cases to judge")
        last = Way()
        for planned in chain(ways, self._sought(len(ways))):
            way = called = self._without_known(planned)
            attempted = self.attempts.make(way)
            is_wrong = not attempted.fatal and attempted.fails
            if is_wrong:
                way, attempted = self._explain(way, attempted)
            if attempted.fatal:
                return Outcome(violations=prefixed(attempted.violations, f"with {way.words}"), fatal=True)
            if is_wrong and not self.is_asked and (after := self.attempts.make(self.plain)).fails:
                said = f"with plain values after a call with {last.words}, and right before it"
                wrong = prefixed(after.faults[:1], said, before=f"a call with {last.words}")
                return Outcome(violations=wrong, ways=("plain",) * len(wrong))
            last = called
            if len(self._found) == _MOST_FOUND:
                break
        return Outcome(
            violations=tuple(violation for _, violation in self._found),
            ways=tuple(str(way) for way, _ in self._found),
        )

    def of_one(self, way: Way) -> Outcome:
        """Judges one call, and says which of its circumstances a fault needs."""
        outcome = self.of([way])
        if outcome.violations or outcome.fatal:
            return outcome
        # The plain call, and an option alone, are nobody's meeting, and asked for all the same.
        attempted = self.attempts.make(way)
        told = prefixed(attempted.faults, f"with {way.words}", **dict(way.meeting.values))
        return Outcome(violations=told, fatal=attempted.fatal)

    def _is_right(self, way: Way) -> bool:
        return not self.attempts.make(way).fails

    def _sought(self, planned: int) -> Iterator[Way]:
        """Yields ways in which conditions of the code would come out together that never did, each with a gradient too where there is one."""
        if self.is_asked:
            return
        # Each part seeks others.
        rng = np.random.default_rng(int(self.plain.get(VALUES, "0")))
        ways = self.attempts.conditions.ways(self.space.axes, rng)
        gradient = self._axes[ax.GRADIENT].values[1] if ax.GRADIENT in self._axes else None
        for number, way in enumerate(islice(ways, int(planned * SOUGHT))):
            numbered = Way((*way.values, (VALUES, str(_SOUGHT_NUMBERS + number))))
            both = numbered.having(ax.GRADIENT, gradient) if gradient and not way.get(ax.GRADIENT) else numbered
            yield from (each for each in dict.fromkeys((numbered, both)) if not self.space.excluded(each))

    def _without_known(self, way: Way) -> Way:
        """Returns the way without meetings that fail: one of their values is as usual, so that the others are met all the same."""
        while (held := next((each for each in self._known if way.holds(each)), None)) is not None:
            way = way.without(held.values[-1][0])
        return way

    def _explain(self, way: Way, attempted: Attempted) -> tuple[Way, Attempted]:
        """Keeps the smallest meeting that fails as a way does, if it is a fault. Returns the last call, which may be fatal."""
        way, attempted = self._reduced(way, attempted)
        if attempted.fatal or not attempted.fails:
            return way, attempted
        if way.meeting.values:
            self._known.append(way.meeting)
        found = self._counted(way, attempted)
        if found is not None:
            least, smaller, right = self._smallest(way, attempted)
            alone = "right with any one of these as usual" if len(least.meeting.values) > 1 else "right as usual"
            judged = judging(self.space, least)
            everywhere = f"; {judged} judges it everywhere" if judged else ""
            words = f"with {least.words} ({alone}{everywhere}{right and f', and at {right}'})"
            told = (self._counted(least, smaller) or found).told(words, **dict(least.meeting.values))
            self._found.append((least, told))
        return way, attempted

    def _reduced(self, way: Way, attempted: Attempted) -> tuple[Way, Attempted]:
        """Leaves out one circumstance after the other, as long as a call fails in the same manner; the first repeats the way."""
        is_wrong = bool(attempted.violations)
        again = self.attempts.make(way)
        if again.fatal or bool(again.violations) is not is_wrong or not again.fails:
            return way, again if again.fatal else Attempted()
        kinds = self._axes[ax.CONTENTS].values[1:] if ax.CONTENTS in self._axes else ()
        asked_for, is_smaller = {way}, True
        while is_smaller:
            # What one circumstance hides, such as a NaN in the only row, shows once another is as usual: all are asked again.
            is_smaller = False
            for simpler in _simpler(way, kinds):
                asked = simpler(way)
                if asked in asked_for:
                    continue
                made = self.attempts.make(asked)
                if made.fatal:
                    return asked, made
                asked_for.add(asked)
                if made.fails and bool(made.violations) is is_wrong:
                    way, again, is_smaller = asked, made, True
        return way, again

    def _smallest(self, way: Way, attempted: Attempted) -> tuple[Way, Attempted, str]:
        """Returns the way with the least sizes that fail, and words for the next smaller ones, at which it is right."""
        right = []
        for name in (ax.COLUMNS, ax.ROWS):
            if not way.get(name):
                continue
            failing, values = int(way.get(name)), map(int, self._axes[name].values)
            passing = max((n for n in values if n < failing), default=0)
            for _ in range(_HALVINGS):
                if failing - passing < 2:
                    break
                middle = (failing + passing) // 2
                made = self.attempts.make(way.having(name, str(middle)))
                if made.fatal:
                    break
                if made.fails and bool(made.violations) == bool(attempted.violations):
                    failing, attempted = middle, made
                else:
                    passing = middle
            way = way.having(name, str(failing))
            right += [f"{name} {passing}"] if passing else []
        return way, attempted, ", ".join(right)

    def _counted(self, way: Way, attempted: Attempted) -> Violation | None:
        """Returns what is a fault of a meeting: wrong values, and a refusal where every circumstance is promised.

        The plain call is for other probes to judge. An option counts alone where its meaning is known.
        """
        axes, met = self._axes, way.meeting.values
        if not met:
            return None
        (first, value), is_alone = met[0], len(met) == 1
        if is_alone and not axes[first].is_promised and not self._is_meant(axes[first], way):
            if attempted.violations and first != ax.DIMS:
                self.attempts.notes.append(
                    f"with {way.words} the answers are none that the name promises; {judging(self.space, way)} judges them all the same"
                )
            return None
        # A function need not take one mask for several rows.
        others = [words for words in TAKEN_ONCE if words != way.get(ax.SHARED_MASK)]
        if way.get(ax.SHARED_MASK) and not any(self._is_right(way.having(ax.SHARED_MASK, words)) for words in others):
            return None
        if attempted.violations:
            return attempted.violations[0]
        is_promised = all(axes[name].refusal and axes[name].is_promised for name, _ in met)
        is_asked = not is_alone or (axes[first].refusal == "alone" and ax.OVER not in value)
        is_answer = attempted.refused is not None and attempted.refused.kind is not FindingKind.RAISED
        is_own = is_alone and (first in (*ax.OWN, ax.BEFORE) or ax.OVER in value)
        return attempted.refused if (is_promised and is_asked) or (is_answer and is_own) else None

    def _is_meant(self, axis: WayAxis, way: Way) -> bool:
        """True if a value of one axis that nobody promises has one meaning, or if another value of it, or a small matrix, is right."""
        if axis.name == ax.DIMS:
            return ax.OVER in way.get(ax.DIMS)
        if axis.name in (ax.CALL, *ax.HEADS, *ax.OWN) or has_one_meaning(self.space.subject, axis.name):
            return True
        others = [way.having(axis.name, value) for value in axis.values[1:] if value != way.get(axis.name)]
        small = way.having(ax.COLUMNS, _SMALL[1]).having(ax.ROWS, _SMALL[0])
        return any(map(self._is_right, (*others, small)))


def _simpler(way: Way, kinds: Sequence[str]) -> Iterator[Callable[[Way], Way]]:
    """Yields what leaves out half of the circumstances, one of them, or two; and what gives rows of one kind in place of several."""
    # The call before is left out last: without it an allocator may hand out the same memory, and a stale answer shows all the same.
    names = sorted((name for name, _ in reversed(way.values)), key=lambda name: name == ax.BEFORE)
    half = len(names) // 2
    groups = [names[:half], names[half:]] if len(names) > _FEW else []
    groups += [[name] for name in names]
    yield from (partial(_without, names=group) for group in groups)
    yield from (partial(_of_kind, kind=kind) for kind in kinds)
    yield _asked_plainly
    if len(names) > _FEW:
        yield from (partial(_without, names=pair) for pair in combinations(names, 2))


def _without(way: Way, names: Sequence[str]) -> Way:
    return reduce(Way.without, names, way)


def _asked_plainly(way: Way) -> Way:
    """Returns the way with a gradient that is asked for once, for a varying output gradient."""
    is_asked = way.get(ax.ASKED) or way.get(ax.GRADIENT)
    return way.without(ax.ASKED).without(ax.GRADIENT).having(ax.GRADIENT, VARYING) if is_asked else way


def _of_kind(way: Way, kind: str) -> Way:
    # Of rows of several kinds the one that shows it may be of another kind than the first.
    is_of_several = way.get(ax.CONTENTS) == contents.ADVERSARIAL or way.get(ax.OTHERS)
    return way.without(ax.OTHERS).having(ax.CONTENTS, kind) if is_of_several else way


def judging(space: WaySpace, way: Way) -> str:
    """Returns the options of a command that judges a way's options everywhere; an empty text for a way without any."""
    given = dict(way.values)
    words = in_words(space.declared(given))
    call = f"--call '{given[ax.CALL].replace(';', ',').replace(':', '=')}'" if ax.CALL in given else ""
    return f"--declare {words}" if words else call


def _space_of(subject: Subject, only: Collection[str] = ()) -> WaySpace | Outcome:
    """Returns the axes of a function, once it has been called; an outcome if a plain call ends the process."""
    setting = subject.setting
    columns = 40 if setting.has_heads else 129
    bits = ordinary_rows(3, columns if setting.takes(columns) else 1, setting.fmt, setting.seed)
    with offered() as configurations:
        called = call_on(subject, bits)
        if called.fatal or called.output is None:
            return Outcome(fatal=called.fatal)
        if configurations and setting.takes(_WIDE):
            # Their pruning may leave others for wide rows.
            call_on(subject, ordinary_rows(1, _WIDE, setting.fmt, setting.seed))
    carried = _carried(subject, bits)
    if isinstance(carried, Attempted) and (carried.fatal or not carried.note):
        return Outcome(violations=carried.faults, note=carried.note, fatal=carried.fatal)
    if ax.GRADIENT in only and (isinstance(carried, Attempted) or not carried.carries_gradient):
        return Outcome(skipped=carried.note or f"{NOTHING_TO_TRY}its answer carries no gradient")
    space = replace(
        WaySpace(subject, note=carried.note) if isinstance(carried, Attempted) else carried,
        taken_dimensions=ax.MOST_DIMENSIONS,
        configurations=(*configurations,),
    )
    return replace(space, taken_dimensions=max((n for n in (2, 3, 4) if n == 2 or _is_right(space, n)), default=2))


def _is_right(space: WaySpace, dimensions: int) -> bool:
    """True if the code has to do with numbers of dimensions, and the answer for ordinary rows of so many is right."""
    has_to_do = any(map(space.source.mentions, _OF_DIMENSIONS))
    is_due = has_to_do or dimensions <= space.subject.setting.declaration.dimensions
    attempts, way = Attempts(space, space.subject.setting.seed), Way(((ax.DIMS, str(dimensions)),))
    return is_due and dimensions <= space.most_dimensions and not attempts.make(way).fails


def _carried(subject: Subject, bits: Bits) -> WaySpace | Attempted:
    """Returns the space of a function by the gradient that its answer carries where the input, or each operand, requires one.

    Returns what is wrong, or a note, where there are none.
    """
    setting, function, operation = subject.setting, subject.variant.function, subject.variant.operation
    is_judged = operation.operand_gradients is not None or operation.gradient is not None
    if setting.declaration.backward is False or not is_judged:
        return WaySpace(subject)
    placed = place(bits, setting.fmt, PACKED, subject.device)
    if operation.operand_gradients is not None:
        if not isinstance(function, Adapted) or operation.arguments is None:
            return not_asked(subject, FindingKind.WRONG_GRADIENT, "the variant is called on the matrix itself")
    else:
        placed.view.requires_grad_()
    whole, leaves = list[Any](), {"x": placed.view}
    if (inputs := inputs_of(function, placed.view)) is not None:
        asking = OPERANDS if operation.operand_gradients is not None else ()
        inputs, of_operands = with_leaves(inputs, asking)
        leaves = of_operands or leaves
        function = given(function, replace(inputs, answers=whole))
    returned = call_on_device(function, placed, setting.operation)
    if returned.output is None:
        refused = "; ".join(each.message for each in returned.violations)
        return not_asked(
            subject, FindingKind.RAISED, f"an input that requires one is refused: {refused}", fatal=returned.fatal
        )
    if not returned.output.requires_grad:
        is_promised = setting.declaration.backward
        return not_asked(subject, FindingKind.WRONG_GRADIENT, _NONE_CARRIED) if is_promised else WaySpace(subject)
    parts = parts_of(whole[-1]).values() if whole else ()
    carrying = [each for each in parts if isinstance(each, torch.Tensor) and each.requires_grad and each.numel()]
    return WaySpace(
        subject,
        carries_gradient=True,
        has_own_backward=not is_torchs_own(returned.output),
        has_answers_beside=len(carrying) > 1,
        keeps_graph=in_vain(_backward_twice, returned.output, [*leaves.values()]) is not None,
    )


def _backward_twice(output: torch.Tensor, leaves: Sequence[torch.Tensor]) -> Sequence[torch.Tensor | None]:
    grad, found = torch.ones_like(output), list[torch.Tensor | None]()
    for keeps in (True, False):
        found += torch.autograd.grad(output, leaves, grad, retain_graph=keeps, allow_unused=True)
    return found
