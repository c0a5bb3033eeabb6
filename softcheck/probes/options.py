"""Values of a function's options that its calls leave at their defaults: a mask, a scale, a smoothing, a reduction.

A report calls a function as its users do who give nothing else, so that a path that only an option takes is never run. Here
each option whose meaning its name tells is given, one at a time; ``meetings`` gives several. Nobody promises these options. So a wrong
answer is a finding only where the name surely means what is judged: torch has the option under this name, or the answer for an
ordinary value is right.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from oracles.formats import Bits, decode, encode
from softcheck.contract import WRONG_KINDS, FindingKind
from softcheck.errors import UsageError
from softcheck.operations.operation import Parameter, value_in_words
from softcheck.operations.registry import operation as operation_of
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import UNPROMISED, Judged, beyond, judged
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome
from softcheck.probes.space.contents import finite_adversarial, spread
from softcheck.variants.adapt import Adapted
from softcheck.variants.forms import PLAIN, names_in
from softcheck.variants.meanings import LOGIT_SCALE, PARAMETERS
from softcheck.variants.registry import load, with_call, with_declared

VALUES: Mapping[str, tuple[Parameter, ...]] = {
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
BESIDE: Mapping[str, Mapping[str, Parameter]] = {"window": {"causal": "top-left"}}
"""What a parameter is judged beside alone."""
_PLAIN = frozenset({"ignore_index", "label_smoothing", "softcap", "reduction"})
_PLAIN_OF_HEADS = frozenset({"causal", "scale", "softcap", "groups"})
"""Options that mean the same in torch or wherever they are published, so that a wrong answer for an ordinary value is a finding."""
TEMPERATURE = "temperature"
"""The trial of 1 over a scale, by that name."""
_NOTHING = f"{NOTHING_TO_TRY}takes no option that its calls leave out"
_MASK = "mask"
"""The trial of a mask, or another operand, that a call of a matrix can be given."""
_BESIDE_CAUSAL = "beside-causal"
"""The trial of calls after one with a mask and a causal flag."""
_CAUSAL: Mapping[str, Parameter] = {"causal": VALUES["causal"][0]}

_SHAPES, _SHAPES_OF_HEADS, _SHAPES_OF_BATCHES = (
    ((6, 129), (5, 33), (3, 1100)),
    ((6, 70), (2, 130)),
    ((3, 129), (2, 1100)),
)
_SMALL = (2, 18)
"""A shape within a tile, which a causal mask takes for more than one query of more than one key."""
_FIRST_HIDDEN = 9
"""The first column that is hidden where a mask hides, and the distance to the next."""
_SECONDS = 3.0
"""Time of an option's trial, after which no further value is tried."""


class _OpenOptions(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        known = setting.operation.parameters
        names = [name for name in VALUES if name in known]
        names += [TEMPERATURE] if "scale" in known else []
        takes_operands = setting.operation.arguments is not None and "masked" not in known
        names += [_MASK, _BESIDE_CAUSAL] if takes_operands else []
        return [Trial(name) for name in names] if setting.takes(_shapes(setting)[0][1]) else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges the values of an option, which then counts as varied."""
        function = subject.variant.function
        outcome = self._judged(subject, trial)
        if outcome.skipped is not None or not isinstance(function, Adapted):
            return outcome
        name = function.open_options.get(trial.label)
        operands = function.untried.items() if trial.label == _MASK else ()
        given = [parameter for parameter, choices in operands if len([one for one in choices if one.call]) == 1]
        return msgspec.structs.replace(outcome, varied=(*([] if name is None else [name]), *given))

    def _judged(self, subject: Subject, trial: Trial) -> Outcome:
        function = subject.variant.function
        if not isinstance(function, Adapted):
            return Outcome(skipped=_NOTHING)
        open_ones = function.open_options
        if trial.label == _MASK:
            return _of_an_operand(subject, function)
        if trial.label == _BESIDE_CAUSAL:
            return _of_causal(subject, function)
        if trial.label not in open_ones:
            return Outcome(skipped=_NOTHING)
        if trial.label != TEMPERATURE:
            plain = _PLAIN_OF_HEADS if subject.setting.has_heads else _PLAIN
            is_named = trial.label == "scale" and open_ones["scale"].lower() in LOGIT_SCALE.split()
            return _of_one(subject, trial.label, is_plain=trial.label in plain or is_named)
        # A scale that is declared is given as a scale where the function takes one too.
        call = f"{(function.call or PLAIN)[:-1]}, {open_ones[TEMPERATURE]}=temperature)" if "scale" in open_ones else ""
        return _of_one(subject, "scale", call, is_plain=True)


PROBE = _OpenOptions()


def _of_one(subject: Subject, name: str, call: str = "", *, is_plain: bool) -> Outcome:
    """Judges values of one option until something is wrong or the time is over.

    ``is_plain`` says that the option has one meaning.
    """
    setting = subject.setting
    begun = setting.now()
    refused = None
    for number, value in enumerate(each for each in VALUES[name] if each != setting.operation.parameters[name]):
        declared = {name: value, **BESIDE.get(name, {})}
        outcome = _judged(subject, declared, call, is_known=is_plain or bool(number))
        if outcome.violations or outcome.fatal:
            return outcome
        refused = refused or outcome.skipped
        if (refused and not number) or setting.now() - begun > _SECONDS * setting.time_share:
            break
    return Outcome(skipped=refused)


def _of_causal(subject: Subject, function: Adapted) -> Outcome:
    """Judges the call without options, and a causal one, after calls with an operand and a causal flag, whatever these give.

    What a call leaves behind, such as a mask that is kept and written into, another call may meet.
    """
    several = _beside_causal(subject, function)
    for words, changed, shape in several:
        values = decode(ordinary_rows(*shape, changed.setting.fmt, changed.setting.seed), changed.setting.fmt)
        # Some of the first keys, which many queries of a causal mask see.
        values[:, 1::2] = -np.inf
        outcome = _of_each_after(subject, partial(_found, changed, encode(values, changed.setting.fmt)), words)
        if outcome.violations or outcome.fatal:
            return outcome
    return Outcome(skipped=None if several else _NOTHING)


def _beside_causal(subject: Subject, function: Adapted) -> list[tuple[str, Subject, tuple[int, int]]]:
    """Returns calls with an operand and a causal flag, which say together what is hidden in many ways, and a shape of each.

    The shape is that of the matrix that a causal mask makes of a row, so that what is kept by shapes is met again.
    """
    causal = with_options(subject, _CAUSAL) if "causal" in function.open_options else None
    matrix = None if causal is None else causal.setting.operation.matrix
    if causal is None or matrix is None or _found(causal, _ordinary(causal)).violations:
        return []
    shape = matrix(_shapes(subject.setting)[0][1])
    found = []
    for call in _operand_calls(function):
        flagged = f"{call[:-1]}, {function.open_options['causal']}=True)"
        try:
            changed = replace(
                subject, variant=load(with_call(subject.variant.said, flagged), device=subject.device, as_said=True)
            )
        except UsageError:
            continue
        found.append((f"as {flagged}", changed, shape))
    return found


def _of_each_after(subject: Subject, call: Callable[[], Judged], words: str) -> Outcome:
    """Judges the call without options, and a causal one, after a call with several, whatever that gives."""
    for declared in ({}, _CAUSAL):
        alone = with_options(subject, declared) if declared else subject
        found = call()
        if not found.fatal and alone is not None:
            found = _found(alone, _ordinary(alone))
        wrong = tuple(v for v in found.violations if found.fatal or v.kind in WRONG_KINDS)
        if wrong:
            said = f"with {_in_words(declared) or 'no option'} after a call {words}, which nobody declares"
            return Outcome(violations=prefixed(wrong, said), fatal=found.fatal)
    return Outcome()


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
            loaded = load(with_call(subject.variant.said, call), device=subject.device, as_said=True)
        except UsageError as error:
            return Outcome(skipped=str(error))
        outcome = _compared(subject, replace(subject, variant=loaded), f"called as {call}", hides=True)
        if outcome.violations or outcome.fatal:
            return outcome
    return Outcome()


def _judged(subject: Subject, declared: Mapping[str, Parameter], call: str, *, is_known: bool) -> Outcome:
    """Judges calls with options, and says why if nothing of it counts: they are refused, or mean something else."""
    function = subject.variant.function
    open_ones = function.open_options if isinstance(function, Adapted) else {}
    own = [open_ones[name] for name in declared if not call and open_ones.get(name, name) != name]
    given = f" given as {', '.join(own)}" if own else ""
    shown = _in_words(declared) + given + (f" and called as {call}" if call else "")
    changed = with_options(subject, declared, call)
    if changed is None:
        return Outcome(skipped=f"{shown} is not judged beside what is declared")
    options = f"--declare {_in_words(declared)}" + (f" --call '{call}'" if call else "")
    words = f"with {shown}, which nobody declares ({options} judges it everywhere)"
    if not is_known and _is_other(subject, changed):
        return Outcome(
            skipped=f"with {shown} the answers are none that the name promises; {options} judges them all the same"
        )
    return _compared(subject, changed, words)


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
    """Judges a few matrices, and tells what is wrong with an option alone: what is wrong without it too is found elsewhere."""
    for bits in _matrices(changed, _shapes(changed.setting), hides=hides or _hides(changed)):
        outcome = beyond(_found(changed, bits), partial(judged, subject, bits), words, UNPROMISED)
        if outcome.violations or outcome.fatal or outcome.skipped:
            return outcome
    return Outcome()


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
    again = judged(with_zeros(subject), bits)
    return found if again.violations else again


def with_zeros(subject: Subject) -> Subject:
    """Returns the subject as if it declared zeros for rows that an option hides: nobody declares which of NaN and zeros these have."""
    declared = msgspec.structs.replace(subject.setting.declaration, fully_masked="zero")
    variant = replace(subject.variant, declaration=declared)
    return replace(subject, setting=replace(subject.setting, declaration=declared), variant=variant)


def _in_words(declared: Mapping[str, Parameter]) -> str:
    return ",".join(f"{name}={value_in_words(value)}" for name, value in declared.items())


def with_options(subject: Subject, declared: Mapping[str, Parameter], call: str = "") -> Subject | None:
    """Returns the subject as if its options were declared, and its call given; None where these are not judged together."""
    setting, variant = subject.setting, subject.variant
    try:
        operation_of(variant.operation.name, {**variant.operation.parameters, **declared})
        spec = with_declared(variant.said, _in_words(declared))
        loaded = load(with_call(spec, call) if call else spec, device=subject.device, as_said=True)
    except UsageError:
        return None
    if not call and not _gives(loaded.function, subject.variant.function, declared):
        return None
    return replace(subject, variant=loaded, setting=replace(setting, declaration=loaded.declaration))


def _gives(changed: object, function: object, declared: Mapping[str, Parameter]) -> bool:
    """True if a call gives each option that the function's own call leaves open: a function may refuse two of them together."""
    if not isinstance(changed, Adapted) or not isinstance(function, Adapted):
        return True
    asked = [name for name in declared if name in function.open_options]
    given = names_in(changed.call)
    return all(any(one.text in given for one in PARAMETERS if one.parameter == name) for name in asked)


def _shapes(setting: Setting) -> Sequence[tuple[int, int]]:
    return _SHAPES_OF_HEADS if setting.has_heads else _SHAPES_OF_BATCHES if setting.has_row_calls else _SHAPES


def _matrices(subject: Subject, shapes: Sequence[tuple[int, int]], *, hides: bool = False) -> Iterator[Bits]:
    """Yields ordinary rows and, behind the first matrix, telling ones; where a mask hides, some columns are -inf, and tails of some rows."""
    setting = subject.setting
    fmt = setting.fmt
    for number, (rows, columns) in enumerate(shapes):
        if not setting.takes(columns):
            continue
        values = spread(rows, columns, fmt, setting.seed)
        if number:
            finite = finite_adversarial(rows, columns, fmt, setting.seed)
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
