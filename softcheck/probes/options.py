"""Values of a function's options that its calls leave at their defaults: a mask, a scale, a smoothing, a reduction.

A report calls a function as its users do who give nothing else, so that a path that only an option takes is never run. Here
each option whose meaning its name tells is given, one at a time and then all together. Nobody promises any of it. An answer is
held against an option where torch has the option under the same name, or where the answer for an ordinary value is right, so
that the name means what is judged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from oracles.formats import Bits, decode, encode
from softcheck.cases.telling import telling_batch
from softcheck.contract import WRONG_KINDS, FindingKind
from softcheck.errors import UsageError
from softcheck.operations.operation import Parameter, value_in_words
from softcheck.operations.registry import operation as operation_of
from softcheck.probes import gradients
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import Judged, judged
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome
from softcheck.probes.relations import RelationProbe
from softcheck.variants.adapt import Adapted
from softcheck.variants.forms import PLAIN
from softcheck.variants.registry import load, with_call, with_declared

_VALUES: Mapping[str, tuple[Parameter, ...]] = {
    "masked": (1.0,),
    "biased": (1.0,),
    "causal": ("top-left",),
    "window": (7.0, 1.0),
    "groups": (2.0,),
    "sink": (1.0, -2.0),
    "scale": (0.5, 3.0, 0.1),
    "softcap": (30.0, 2.0),
    "ignore_index": (3.0, 0.0, -1.0),
    "label_smoothing": (0.1, 0.5),
    "weight": (1.0,),
    "z_loss": (1e-4, 0.5),
    "reduction": ("mean", "sum", "none"),
}
"""Values of parameters of operations, the most ordinary one first."""
_BESIDE: Mapping[str, Mapping[str, Parameter]] = {"window": {"causal": "top-left"}}
"""What a parameter is judged beside alone."""
_PLAIN = frozenset({"ignore_index", "label_smoothing", "softcap", "reduction"})
_PLAIN_OF_HEADS = frozenset({"causal", "scale", "softcap", "groups"})
"""Options that mean the same in torch or wherever they are published, so that a wrong answer for an ordinary value is a finding."""
_ALWAYS = frozenset({FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.INPUT_MODIFIED})
"""Kinds beside wrong answers that are findings in calls which nobody promises."""
_TEMPERATURE = "temperature"
"""The trial of 1 over a scale, by that name."""
_NOTHING = f"{NOTHING_TO_TRY}takes no option that its calls leave out"
_MASK = "mask"
"""The trial of a mask, or another operand, that a call of a matrix can be given."""
_TOGETHER = "together"
"""The trial of all options at once, and of each after that."""

_SHAPES, _SHAPES_OF_HEADS, _SHAPES_OF_BATCHES = (
    ((6, 129), (5, 33), (3, 1100)),
    ((6, 70), (2, 130)),
    ((3, 129), (2, 1100)),
)
_SMALL = (2, 18)
"""A shape within a tile, which a causal mask takes for more than one query of more than one key."""
_FACTORS = (1.0, 4.0, 6.0)
"""Factors of the logits of one row after the other: what is rounded in 16 bits shows in some of them."""
_TILE = 128
_FIRST_HIDDEN = 9
"""The first column that is hidden where a mask hides, and the distance to the next."""
_SECONDS = 3.0
"""Time of an option's trial, after which no further value is tried."""


class _Alone(NamedTuple):
    """One option: what is declared, and the subject with it."""

    declared: Mapping[str, Parameter]
    subject: Subject


class _OpenOptions(RelationProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        known = setting.operation.parameters
        names = [name for name in _VALUES if name in known]
        names += [_TEMPERATURE] if "scale" in known else []
        takes_operands = setting.operation.arguments is not None and "masked" not in known
        names += [*([_MASK] if takes_operands else []), _TOGETHER]
        return [Trial(name) for name in names] if setting.takes(_shapes(setting)[0][1]) else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        function = subject.variant.function
        if not isinstance(function, Adapted):
            return Outcome(skipped=_NOTHING)
        open_ones = function.open_options
        if trial.label == _MASK:
            return _of_an_operand(subject, function)
        if trial.label == _TOGETHER:
            return _of_all(subject, function, [name for name in _VALUES if name in open_ones])
        if trial.label not in open_ones:
            return Outcome(skipped=_NOTHING)
        if trial.label != _TEMPERATURE:
            return _of_one(
                subject, trial.label, is_plain=trial.label in (_PLAIN_OF_HEADS if subject.setting.has_heads else _PLAIN)
            )
        # A scale that is declared is given as a scale where the function takes one too.
        call = (
            f"{(function.call or PLAIN)[:-1]}, {open_ones[_TEMPERATURE]}=temperature)" if "scale" in open_ones else ""
        )
        return _of_one(subject, "scale", call, is_plain=True)


PROBE = _OpenOptions()


def _of_one(subject: Subject, name: str, call: str = "", *, is_plain: bool) -> Outcome:
    """Judges values of one option, and gradients for the most ordinary one, until something is wrong or the time is over.

    ``is_plain`` says that the option has one meaning.
    """
    setting = subject.setting
    begun = setting.now()
    refused = None
    for number, value in enumerate(each for each in _VALUES[name] if each != setting.operation.parameters[name]):
        declared = {name: value, **_BESIDE.get(name, {})}
        outcome = _judged(subject, declared, call, is_known=is_plain or bool(number), with_gradients=number == 0)
        if outcome.violations or outcome.fatal:
            return outcome
        refused = refused or outcome.skipped
        if (refused and not number) or setting.now() - begun > _SECONDS * setting.time_share:
            break
    return Outcome(skipped=refused)


def _of_all(subject: Subject, function: Adapted, names: Sequence[str]) -> Outcome:
    """Judges the options together that are right one at a time, and then each alone once more.

    What a call leaves behind, such as a mask that is kept and written into, another call may meet.
    """
    right = _right_alone(subject, names)
    all_of_them = _all_of(subject, right)
    several = _beside_causal(subject, function, right)
    if len(all_of_them) > 1:
        outcome = _judged(subject, all_of_them, "", is_known=True, with_gradients=False)
        if outcome.violations or outcome.fatal:
            return outcome
        if (changed := _with(subject, all_of_them)) is not None:
            several.append((f"with {_in_words(all_of_them)}", changed, _shapes(changed.setting)[0]))
    for words, changed, shape in several:
        values = decode(ordinary_rows(*shape, changed.setting.fmt, changed.setting.seed), changed.setting.fmt)
        # Some of the first keys, which many queries of a causal mask see.
        values[:, 1::2] = -np.inf
        outcome = _of_each_after(subject, partial(_found, changed, encode(values, changed.setting.fmt)), words, right)
        if outcome.violations or outcome.fatal:
            return outcome
    return Outcome(skipped=None if several else _NOTHING)


def _beside_causal(
    subject: Subject, function: Adapted, right: Mapping[str, _Alone]
) -> list[tuple[str, Subject, tuple[int, int]]]:
    """Returns calls with an operand and a causal flag, which say together what is hidden in many ways, and a shape of each.

    The shape is that of the matrix that a causal mask makes of a row, so that what is kept by shapes is met again.
    """
    if "causal" not in right or right["causal"].subject.setting.operation.matrix is None:
        return []
    shape = right["causal"].subject.setting.operation.matrix(_shapes(subject.setting)[0][1])
    found = []
    for call in _operand_calls(function):
        flagged = f"{call[:-1]}, {function.open_options['causal']}=True)"
        try:
            changed = replace(subject, variant=load(with_call(subject.variant.name, flagged)))
        except UsageError:
            continue
        found.append((f"as {flagged}", changed, shape))
    return found


def _of_each_after(subject: Subject, call: Callable[[], Judged], words: str, right: Mapping[str, _Alone]) -> Outcome:
    """Judges the call without options, and with each, after a call with several, whatever that gives."""
    for declared, alone in [_Alone({}, subject), *right.values()]:
        found = call()
        if not found.fatal:
            found = _found(alone, _ordinary(alone))
        wrong = tuple(v for v in found.violations if found.fatal or v.kind in WRONG_KINDS)
        if wrong:
            said = f"with {_in_words(declared) or 'no option'} after a call {words}, which nobody declares"
            return Outcome(violations=prefixed(wrong, said), fatal=found.fatal)
    return Outcome()


def _right_alone(subject: Subject, names: Sequence[str]) -> dict[str, _Alone]:
    """Returns what is declared, and the subject with it, for each option whose answer for ordinary rows is right."""
    found = {}
    for name in names:
        value = next((each for each in _VALUES[name] if each != subject.setting.operation.parameters[name]), None)
        if value is None:
            continue
        declared = {name: value, **_BESIDE.get(name, {})}
        alone = _with(subject, declared)
        if alone is not None and not _found(alone, _ordinary(alone)).violations:
            found[name] = _Alone(declared, alone)
    return found


def _all_of(subject: Subject, right: Mapping[str, _Alone]) -> dict[str, Parameter]:
    """Returns as many of the options as are judged together."""
    found: dict[str, Parameter] = {}
    for name, (declared, _) in right.items():
        is_new = not (name == "biased" and "masked" in found)
        if is_new and _with(subject, {**found, **declared}) is not None:
            found |= declared
    return found


def _operand_calls(function: Adapted) -> list[str]:
    """The calls with a mask, or another operand, of which one alone is right on a small trial."""
    calls = [[one.call for one in choices if one.call] for choices in function.untried.values()]
    return [each[0] for each in calls if len(each) == 1]


def _of_an_operand(subject: Subject, function: Adapted) -> Outcome:
    """Judges a mask, or another operand, where one call with it is right on a small trial."""
    known = _operand_calls(function)
    if not known:
        return Outcome(skipped=_NOTHING)
    for call in known:
        try:
            loaded = load(with_call(subject.variant.name, call))
        except UsageError as error:
            return Outcome(skipped=str(error))
        outcome = _compared(subject, replace(subject, variant=loaded), f"called as {call}", hides=True)
        if outcome.violations or outcome.fatal:
            return outcome
    return Outcome()


def _judged(
    subject: Subject, declared: Mapping[str, Parameter], call: str, *, is_known: bool, with_gradients: bool
) -> Outcome:
    """Judges calls with options, and says why if nothing of it counts: they are refused, or mean something else."""
    shown = _in_words(declared) + (f" and called as {call}" if call else "")
    changed = _with(subject, declared, call)
    if changed is None:
        return Outcome(skipped=f"{shown} is not judged beside what is declared")
    options = f"--declare {_in_words(declared)}" + (f" --call '{call}'" if call else "")
    words = f"with {shown}, which nobody declares ({options} judges it everywhere)"
    if not is_known and _is_other(subject, changed):
        return Outcome(
            skipped=f"with {shown} the answers are none that the name promises; {options} judges them all the same"
        )
    outcome = _compared(subject, changed, words)
    if outcome.violations or outcome.fatal or outcome.skipped or not with_gradients:
        return outcome
    return _of_gradients(subject, changed, words)


def _is_other(subject: Subject, changed: Subject) -> bool:
    """True if answers for ordinary rows are wrong, where they are right without the option.

    One that is right for a small matrix tells the meaning too: a fault beyond it is a finding.
    """
    for shape in (_shapes(changed.setting)[0], _SMALL):
        bits = next(_matrices(changed, [shape], hides=_hides(changed)))
        found = _found(changed, bits)
        if found.output is None or not found.violations or judged(subject, bits).violations:
            return False
    return True


def _compared(subject: Subject, changed: Subject, words: str, *, hides: bool = False) -> Outcome:
    """Judges a few matrices, and tells what is wrong with an option alone."""
    for bits in _matrices(changed, _shapes(changed.setting), hides=hides or _hides(changed)):
        found = _found(changed, bits)
        if _is_refusal(found):
            return Outcome(skipped=f"{words}: refused, and nothing promises it")
        caused = tuple(v for v in found.violations if found.fatal or v.kind in WRONG_KINDS | _ALWAYS)
        # What is wrong without the option too is found elsewhere.
        if caused and (found.fatal or not judged(subject, bits).violations):
            return Outcome(violations=prefixed(caused, words), fatal=found.fatal)
    return Outcome()


def _of_gradients(subject: Subject, changed: Subject, words: str) -> Outcome:
    """Judges the gradients of one matrix, where those without the option are right."""
    first = next(iter(gradients.PROBE.trials(changed.setting)), None)
    if first is None:
        return Outcome()
    found = gradients.PROBE.run(changed, first)
    wrong = [violation for violation in found.violations if violation.kind is FindingKind.WRONG_GRADIENT]
    if found.fatal or not wrong or gradients.PROBE.run(subject, first).violations:
        return Outcome(violations=found.violations if found.fatal else (), fatal=found.fatal)
    return Outcome(violations=prefixed(wrong, words))


def _ordinary(subject: Subject) -> Bits:
    """The first matrix."""
    return next(_matrices(subject, _shapes(subject.setting)[:1], hides=_hides(subject)))


def _hides(subject: Subject) -> bool:
    return bool(subject.setting.operation.parameters.get("masked"))


def _found(subject: Subject, bits: Bits) -> Judged:
    """Judges a matrix; a query that sees no key may have NaN or zeros, since nobody declares which."""
    found = judged(subject, bits)
    if FindingKind.NAN_MISMATCH not in {violation.kind for violation in found.violations}:
        return found
    declared = msgspec.structs.replace(subject.setting.declaration, fully_masked="zero")
    by_zeros = replace(
        subject,
        setting=replace(subject.setting, declaration=declared),
        variant=replace(subject.variant, declaration=declared),
    )
    again = judged(by_zeros, bits)
    return found if again.violations else again


def _is_refusal(found: Judged) -> bool:
    is_raised = all(violation.kind is FindingKind.RAISED for violation in found.violations)
    return found.output is None and not found.fatal and is_raised


def _in_words(declared: Mapping[str, Parameter]) -> str:
    return ",".join(f"{name}={value_in_words(value)}" for name, value in declared.items())


def _with(subject: Subject, declared: Mapping[str, Parameter], call: str = "") -> Subject | None:
    """Returns the subject as if its options were declared, and its call given; None where these are not judged together."""
    setting, variant = subject.setting, subject.variant
    try:
        operation_of(variant.operation.name, {**variant.operation.parameters, **declared})
        spec = with_declared(variant.name, _in_words(declared))
        loaded = load(with_call(spec, call) if call else spec)
    except UsageError:
        return None
    return replace(subject, variant=loaded, setting=replace(setting, declaration=loaded.declaration))


def _shapes(setting: Setting) -> Sequence[tuple[int, int]]:
    return _SHAPES_OF_HEADS if setting.has_heads else _SHAPES_OF_BATCHES if setting.has_row_calls else _SHAPES


def _matrices(subject: Subject, shapes: Sequence[tuple[int, int]], *, hides: bool = False) -> Iterator[Bits]:
    """Yields ordinary rows and, behind the first matrix, telling ones; where a mask hides, some columns are -inf, and tails of some rows."""
    setting = subject.setting
    fmt = setting.fmt
    for number, (rows, columns) in enumerate(shapes):
        if not setting.takes(columns):
            continue
        values = decode(ordinary_rows(rows, columns, fmt, setting.seed), fmt) * np.resize(_FACTORS, (rows, 1))
        if number:
            drawn = decode(telling_batch(columns, _TILE, fmt, np.random.default_rng(setting.seed), most=4 * rows), fmt)
            finite = drawn[np.isfinite(drawn).all(axis=1)][:rows]
            values[: len(finite)] = finite
        if hides:
            # A causal query sees the first key alone.
            values[:, _FIRST_HIDDEN::_FIRST_HIDDEN] = -np.inf
        yield encode(values, fmt)
    rows, columns = shapes[0]
    if not hides or len(shapes) == 1 or not setting.takes(columns):
        return
    for short in (range(rows // 2), [2 * rows - 1]):
        # Sequences of unequal length: those of a first batch are short, or one of many is.
        values = decode(ordinary_rows(2 * rows if len(short) == 1 else rows, columns, fmt, setting.seed + 1), fmt)
        values[list(short), columns // 4 :] = -np.inf
        yield encode(values, fmt)
