"""The defaults of a function's parameters as values of its operation's, such as a temperature of 0.5. Imports no torch."""

import ast
import inspect
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from softcheck.errors import UsageError
from softcheck.operations.operation import Operation, Parameter, value_in_words
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.meanings import OTHERWISE, PARAMETERS, Meaning

_NEUTRAL: Mapping[str, Parameter] = {"scale": 1.0, "causal": "", "reduction": "none"}
"""Values at which parameters do nothing, where that is another than 0."""


class Defaults(NamedTuple):
    """The operation that a function computes by the defaults of its parameters."""

    values: dict[str, Parameter]
    """Values of the operation's parameters."""
    remarks: tuple[str, ...]
    """Sentences on these values, and on defaults that are none of the operation's values."""


def of_defaults(parameters: Sequence[inspect.Parameter], operation: str, declared: Mapping[str, Parameter]) -> Defaults:
    """Returns what the parameters that calls leave out say of an operation's parameters that nobody declares.

    A default at which a parameter does nothing says nothing, and None leaves it to the function.
    """
    usual = operation_of(operation).parameters
    values: dict[str, Parameter] = {}
    remarks: list[str] = []
    for meaning, each in _meant(parameters):
        name, shown = meaning.parameter, f"{each.name}={each.default!r}"
        if name in declared:
            continue
        try:
            value = _read(meaning, each)
            if value in (None, values.get(name, usual.get(name, _NEUTRAL.get(name, 0.0)))):
                continue
            _check(operation, name, value, {**declared, **values})
        except UsageError as error:
            remarks.append(
                f"{shown}, its default, is no value that {operation} is judged with ({error}), and stays as it is, so that right "
                "answers may seem wrong; give another one by --declare, --call or a wrapper"
            )
        else:
            values[name] = value
            other = "" if value == each.default else f" ({name}={value_in_words(value)})"
            remarks.append(f"judged with {shown}{other}, its default; --declare {name}=VALUE judges another value")
    return Defaults(values, tuple(remarks))


def passed(parameters: Sequence[inspect.Parameter], operation: Operation) -> dict[str, str]:
    """Returns the arguments that parameters with a default need for a call to compute an operation, by name.

    As callers do, it leaves out a parameter whose default is the operation's value, and one whose default is no value, such
    as None, where the operation has the value that it has by itself.
    """
    found: dict[str, str] = {}
    known = [(meaning, each) for meaning, each in _meant(parameters) if meaning.parameter in operation.parameters]
    for name, group in groupby(known, key=lambda pair: pair[0].parameter):
        value, own = operation.parameters[name], _own(operation, name)
        defaults = [(meaning, each, _if_judged(meaning, each, operation)) for meaning, each in group]
        if value != own and any(default == value for _, _, default in defaults):
            continue
        needed = [
            (meaning, each) for meaning, each, default in defaults if (own if default is None else default) != value
        ]
        if len(needed) > 1 and all(default in (None, own) for _, _, default in defaults):
            # A scale beside a temperature: one of them is enough, and both would count twice.
            del needed[1:]
        for meaning, each in needed:
            found[each.name] = "False" if meaning.kind == "flag" and not value else meaning.text
    return found


def with_one_given(parameters: Sequence[inspect.Parameter], operation: Operation, call: str) -> dict[str, str]:
    """Returns calls that give one number more than a call does, by the number's parameter, whose default is no value."""
    return {
        each.name: f"{call[:-1]}, {each.name}={meaning.text})"
        for meaning, each in _meant(left_out(parameters, call))
        if meaning.kind in ("number", "inverse") and meaning.parameter in operation.parameters and each.default is None
    }


def left_out(parameters: Sequence[inspect.Parameter], call: str) -> list[inspect.Parameter]:
    """Returns the parameters with a default that the call of ``f`` in a text leaves out; none where it unpacks arguments."""
    nodes = [node for node in ast.walk(ast.parse(call, mode="eval")) if isinstance(node, ast.Call)]
    # The instance that f(columns) makes is what takes the input.
    calls = [node for node in nodes if isinstance(node.func, ast.Call) or _named(node.func) == "f"]
    words = [word for node in calls for word in node.keywords]
    if any(isinstance(text, ast.Starred) for node in calls for text in node.args) or any(w.arg is None for w in words):
        return []
    count = max((len(node.args) for node in calls), default=0)
    given = {word.arg for word in words}
    by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return [p for p in parameters if p.default is not p.empty and p.name not in given | {*by_place}]


def of_parameters(parameters: Sequence[inspect.Parameter]) -> dict[str, str]:
    """Returns the names of parameters with a default by the parameters of operations that they are for, the first of several.

    A temperature is named beside a scale.
    """
    found: dict[str, str] = {}
    for one, each in _meant(parameters):
        if each.name.lower().rstrip("_") not in OTHERWISE:
            found.setdefault("temperature" if one.kind == "inverse" else one.parameter, each.name)
    return found


def _named(function: ast.expr) -> str:
    """The name of what is called, also of a kernel with its grid."""
    function = function.value if isinstance(function, ast.Subscript) else function
    return function.id if isinstance(function, ast.Name) else ""


def _meant(parameters: Sequence[inspect.Parameter]) -> list[tuple[Meaning, inspect.Parameter]]:
    """The meanings of parameters with a default, those of the same parameter of the operation one after the other."""
    return [(one, p) for one in PARAMETERS for p in parameters if p.default is not p.empty and one.is_of(p.name)]


def _if_judged(meaning: Meaning, parameter: inspect.Parameter, operation: Operation) -> Parameter | None:
    """The value that a default stands for, as ``_read`` gives it; None for one that the operation is not judged with."""
    try:
        value = _read(meaning, parameter)
        if value is not None:
            operation_of(operation.name, {**operation.parameters, meaning.parameter: value})
    except UsageError:
        return None
    return value


def _read(meaning: Meaning, parameter: inspect.Parameter) -> Parameter | None:
    """The value of the operation's parameter that a default stands for; None for one that leaves it to the function.

    Raises UsageError for a default that stands for no value.
    """
    default: Any = parameter.default
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if meaning.kind == "flag" and isinstance(default, bool):
        return meaning.telling if default else ""
    if default is None or default is False or meaning.kind == "operand" or _leaves_open(meaning, parameter):
        return None
    if meaning.kind == "word" and isinstance(default, str):
        return default
    if meaning.kind in ("flag", "word") or not is_number:
        raise UsageError("it is of another type")
    return 1.0 / default if meaning.kind == "inverse" else float(default)


def _leaves_open(meaning: Meaning, parameter: inspect.Parameter) -> bool:
    """True for what stands for no window or no scale, and for a number that may be no scale at all."""
    default: Any = parameter.default
    if meaning.parameter == "window":
        return {*(default if isinstance(default, tuple | list) else (default,))} == {-1}
    may_be_other = parameter.name.lower().rstrip("_") in OTHERWISE and default != 1
    return meaning.parameter == "scale" and (may_be_other or default == 0)


def _check(operation: str, name: str, value: Parameter, others: Mapping[str, Parameter]) -> None:
    """Raises UsageError for a value that is not judged beside the others, or that contradicts one of them."""
    if name in others:
        raise UsageError(f"another default says {name}={value_in_words(others[name])}")
    operation_of(operation, {**others, name: value})


def _own(operation: Operation, name: str) -> Parameter:
    """The value that a parameter has beside the others where nobody gives it, as 1 / sqrt(head_dim) for a scale."""
    others = {each: value for each, value in operation.parameters.items() if each != name}
    try:
        return operation_of(operation.name, others).parameters[name]
    except UsageError:
        return operation_of(operation.name).parameters[name]
