"""Names of the operations, and their modules. A declaration names the operation that its variant computes."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from softcheck.errors import UsageError, near_matches
from softcheck.operations.operation import Operation, Parameter, value_in_words

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


def check_name(name: str) -> None:
    """Raises UsageError, with near matches, if no operation has the name."""
    if name not in OPERATIONS:
        raise UsageError(f"unknown operation {name!r}; {near_matches(name, list(OPERATIONS))}")


def named_in(function: str) -> str | None:
    """Returns the operation that a function's name says, the longest of several: log_softmax holds softmax too."""
    words = function.lower().replace("_", "")
    return max((each for each in OPERATIONS if each.replace("_", "") in words), key=len, default=None)


def operation(name: str, parameters: Mapping[str, Parameter] | None = None) -> Operation:
    """Loads an operation by name, which imports the oracles that it asks, for other than its usual parameters.

    Raises UsageError for an unknown name, of an operation or a parameter, and for a parameter's value that is not judged.
    """
    check_name(name)
    return _loaded(OPERATIONS[name], tuple(sorted((parameters or {}).items())))


@cache
def _loaded(place: str, parameters: tuple[tuple[str, Parameter], ...]) -> Operation:
    module, _, constant = place.partition(":")
    found: Operation = getattr(import_module(module), constant)
    for given, value in parameters:
        if given not in found.parameters:
            hint = near_matches(given, list(found.parameters)) if found.parameters else "it has none"
            raise UsageError(f"{found.name} has no parameter {given!r}; {hint}")
        usual = found.parameters[given]
        if isinstance(usual, str) is not isinstance(value, str):
            expected = "a word" if isinstance(usual, str) else f"a number, as {usual:g}"
            raise UsageError(f"{given} is {value_in_words(value)!r}; expected {expected}")
    return found if not parameters or found.with_parameters is None else found.with_parameters(**dict(parameters))
