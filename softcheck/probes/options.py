"""Options that a function's calls leave at their defaults, given: a mask, a scale, a smoothing, a reduction.

A report calls a function as its users do who give nothing else, so that a path that only an option takes is never run. Nobody
promises these options. So a wrong answer for one alone is a finding only where the name surely means what is judged: torch has the option
under this name, or the answer for another value, or a small matrix, is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from softcheck.errors import UsageError
from softcheck.operations.operation import Parameter, value_in_words
from softcheck.operations.registry import operation as operation_of
from softcheck.probes.base import Subject
from softcheck.variants.adapt import Adapted
from softcheck.variants.forms import PLAIN, names_in
from softcheck.variants.meanings import LOGIT_SCALE, PARAMETERS
from softcheck.variants.registry import load, with_call, with_declared

VALUES: Mapping[str, tuple[Parameter, ...]] = {
    "masked": (1.0,),
    "biased": (1.0,),
    "causal": ("top-left",),
    "window": (7.0, 1.0, 40.0),
    "groups": (2.0, 3.0, 17.0),
    "sink": (1.0, -2.0),
    "scale": (0.5, 3.0, 0.1, 0.502),
    "softcap": (30.0, 2.0),
    "ignore_index": (3.0, 0.0, -1.0),
    "label_smoothing": (0.1, 0.5),
    "weight": (1.0,),
    "z_loss": (1e-4, 0.5),
    "base": (2.0,),
    "reduction": ("mean", "sum", "none"),
}
"""Values of parameters of operations, the most ordinary one first; two scales are near each other, as a key of few digits has them."""
BESIDE: Mapping[str, Mapping[str, Parameter]] = {"window": {"causal": "top-left"}}
"""What a parameter is judged beside alone."""
_PLAIN = frozenset({"ignore_index", "label_smoothing", "softcap", "reduction"})
_PLAIN_OF_HEADS = frozenset({"causal", "scale", "softcap", "groups"})
"""Options that mean the same in torch or wherever they are published, so that a wrong answer for an ordinary value is a finding."""
TEMPERATURE = "temperature"
"""1 over a scale, by that name."""


def has_one_meaning(subject: Subject, name: str) -> bool:
    """True if the name of an option says what it does."""
    function = subject.variant.function
    own = function.open_options.get(name, "") if isinstance(function, Adapted) else ""
    plain = _PLAIN_OF_HEADS if subject.setting.has_heads else _PLAIN
    is_named = name == TEMPERATURE or (name == "scale" and (not own or own.lower() in LOGIT_SCALE.split()))
    return name in plain or is_named


def operand_calls(function: object) -> dict[str, str]:
    """Calls with a mask, or another operand, of which one alone is right on a small trial, and with other temperatures, by the function's parameter."""
    if not isinstance(function, Adapted):
        return {}
    calls = {name: [one.call for one in choices if one.call] for name, choices in function.untried.items()}
    calls["temperatures"] = [function.with_temperatures]
    return {name: each[0] for name, each in calls.items() if len(each) == 1 and each[0]}


def giving(function: object, call: str, options: Iterable[str]) -> str:
    """Returns a call that also gives options that a function's own calls leave open: each stands in it by the operation's own name."""
    assert isinstance(function, Adapted)
    return f"{call[:-1]}{''.join(f', {function.open_options[name]}={name}' for name in options)})"


def temperature_call(function: object) -> str:
    """Returns the call with a temperature of a function that takes a scale too; an empty text for any other."""
    if not isinstance(function, Adapted) or not {"scale", TEMPERATURE} <= function.open_options.keys():
        return ""
    return giving(function, function.call or PLAIN, [TEMPERATURE])


def called_as(subject: Subject, call: str) -> Subject | None:
    """Returns the subject by another call; None if that is not judged."""
    try:
        loaded = load(with_call(subject.variant.said, call), device=subject.device, as_said=True)
    except UsageError:
        return None
    return replace(subject, variant=loaded)


def with_zeros(subject: Subject) -> Subject:
    """Returns the subject as if it declared zeros for rows that an option hides: nobody declares which of NaN and zeros these have."""
    declared = msgspec.structs.replace(subject.setting.declaration, fully_masked="zero")
    variant = replace(subject.variant, declaration=declared)
    return replace(subject, setting=replace(subject.setting, declaration=declared), variant=variant)


def in_words(declared: Mapping[str, Parameter]) -> str:
    """Returns options as ``--declare`` takes them."""
    return ",".join(f"{name}={value_in_words(value)}" for name, value in declared.items())


def with_options(subject: Subject, declared: Mapping[str, Parameter], call: str = "") -> Subject | None:
    """Returns the subject as if its options were declared, and its call given; None where these are not judged together."""
    setting, variant = subject.setting, subject.variant
    try:
        operation_of(variant.operation.name, {**variant.operation.parameters, **declared})
        spec = with_declared(variant.said, in_words(declared))
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
