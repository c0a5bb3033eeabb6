"""Names of the operations, and their modules. A declaration names the operation that its variant computes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from runpy import run_path
from typing import Any

from oracles.formats import FLOAT32
from softcheck.errors import UsageError, near_matches
from softcheck.operations.operation import Operation, Parameter, value_in_words

DEFAULT = "softmax"
"""The operation of a function of which nobody says one."""

OPERATIONS: dict[str, str] = {
    "softmax": "softcheck.operations.softmax:SOFTMAX",
    "log_softmax": "softcheck.operations.softmax:LOG_SOFTMAX",
    "logsumexp": "softcheck.operations.softmax:LOGSUMEXP",
    "cross_entropy": "softcheck.operations.cross_entropy:CROSS_ENTROPY",
    "softmax_backward": "softcheck.operations.backward:SOFTMAX_BACKWARD",
    "log_softmax_backward": "softcheck.operations.backward:LOG_SOFTMAX_BACKWARD",
    "attention": "softcheck.operations.attention:ATTENTION",
    "attention_logsumexp": "softcheck.operations.attention:ATTENTION_LOGSUMEXP",
}
"""Module and name of each operation."""


def _whole(least: int) -> tuple[Callable[[Any], bool], str]:
    return lambda value: float(value).is_integer() and value >= least, f"an integer of at least {least}"


_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "scale": (lambda value: 0 < value < math.inf, "a number above 0, such as 0.125, or 1 / temperature"),
    "softcap": (lambda value: 0 <= value < math.inf, "a number above 0, such as 30, or 0 for none"),
    "base": (lambda value: value in (2, math.e), "2, or no base for natural logarithms"),
    "ignore_index": (
        lambda value: value == -math.inf or float(value).is_integer(),
        "an integer, such as -100, or a column that stands for padding",
    ),
    "label_smoothing": (lambda value: 0 <= value < 1, "at least 0 and less than 1"),
    "z_loss": (lambda value: 0 <= value <= 1, "a factor of the squared log-sum-exp from 0 to 1, such as 1e-4"),
    "sink": (
        lambda value: value == -math.inf or abs(value) <= FLOAT32.max,
        "a number that float32 holds, or -inf for none",
    ),
    **dict.fromkeys(
        ("weight", "head", "gradient_in_place"), (lambda value: value in (0, 1), "1 if the function has it, else 0")
    ),
    **dict.fromkeys(("value_dim", "window"), _whole(0)),
    "queries": (_whole(0)[0], "a number of queries, or 0 for one that the width gives"),
    **dict.fromkeys(("head_dim", "groups"), _whole(1)),
}
"""The values of a parameter that are judged, and words for them."""

_WORDS: dict[str, tuple[str, ...]] = {
    "causal": ("", "top-left", "bottom-right"),
    "reduction": ("none", "mean", "sum"),
    "invalid_target": ("", "nan", "zero", "undefined"),
    "no_keys": ("-inf", "inf", "zero"),
}
"""The words that a parameter may be."""


def _check_value(name: str, value: Parameter) -> None:
    """Raises UsageError for a parameter's value that is not judged."""
    if isinstance(value, str):
        if value not in (known := _WORDS.get(name, (value,))):
            raise UsageError(f"{name} is {value!r}; {near_matches(value, [word for word in known if word])}")
    elif name in _NUMBERS and not _NUMBERS[name][0](value):
        raise UsageError(f"{name} is {value_in_words(value)}; expected {_NUMBERS[name][1]}")


def check_name(name: str) -> str:
    """Returns the name itself, which may be a place, ``FILE.py:NAME``. Raises UsageError if no operation has it."""
    if name not in OPERATIONS and ":" not in name:
        more = "An operation of your own is given as FILE.py:NAME or PACKAGE.MODULE:NAME"
        raise UsageError(f"unknown operation {name!r}; {near_matches(name, list(OPERATIONS))} {more}")
    if name not in OPERATIONS:
        _at(name)
    return name


def named_in(function: str) -> str | None:
    """Returns the operation that a function's name says, the longest of several: log_softmax holds softmax too."""
    words = function.lower().replace("_", "")
    return max((each for each in OPERATIONS if each.replace("_", "") in words), key=len, default=None)


def operation(name: str = DEFAULT, parameters: Mapping[str, Parameter] | None = None) -> Operation:
    """Loads an operation by name, which imports the oracles that it asks, for other than its usual parameters.

    Raises UsageError for an unknown name, of an operation or a parameter, and for a parameter's value that is not judged.
    """
    check_name(name)
    return _loaded(name, tuple(sorted((parameters or {}).items())))


@cache
def _at(place: str) -> Operation:
    """Imports an operation. Raises UsageError, with the next step, where there is none."""
    where, _, constant = place.rpartition(":")
    try:
        named = run_path(where) if where.endswith(".py") else vars(import_module(where))
    except Exception as error:
        raise UsageError(f"operation {place!r}: {where} can't be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found := named.get(constant), Operation):
        known = [name for name, each in named.items() if isinstance(each, Operation)]
        hint = near_matches(constant, known, "make one there by softcheck.operations.formula.from_formula")
        raise UsageError(f"operation {place!r}: {where} has no operation {constant!r}; {hint}")
    return found if place in OPERATIONS.values() else replace(found, name=place)


@cache
def _loaded(name: str, parameters: tuple[tuple[str, Parameter], ...]) -> Operation:
    found = _at(OPERATIONS.get(name, name))
    for given, value in parameters:
        if given not in found.parameters:
            hint = near_matches(given, list(found.parameters)) if found.parameters else "it has none"
            raise UsageError(f"{found.name} has no parameter {given!r}; {hint}")
        usual = found.parameters[given]
        if isinstance(usual, str) is not isinstance(value, str):
            expected = "a word" if isinstance(usual, str) else f"a number, as {usual:g}"
            raise UsageError(f"{given} is {value_in_words(value)!r}; expected {expected}")
        _check_value(given, value)
    if not parameters or found.with_parameters is None:
        return found
    changed = found.with_parameters(**dict(parameters))
    return changed if changed.name == found.name else replace(changed, name=found.name)
