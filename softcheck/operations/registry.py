"""Names of the operations, and their modules. A declaration names the operation that its variant computes."""

from functools import cache
from importlib import import_module

from softcheck.errors import UsageError, near_matches
from softcheck.operations.operation import Operation

OPERATIONS: dict[str, str] = {
    "softmax": "softcheck.operations.softmax:SOFTMAX",
    "log_softmax": "softcheck.operations.log_softmax:LOG_SOFTMAX",
}
"""Module and name of each operation."""


def check_name(name: str) -> None:
    """Raises UsageError, with near matches, if no operation has the name."""
    if name not in OPERATIONS:
        raise UsageError(f"unknown operation {name!r}; {near_matches(name, list(OPERATIONS))}")


def operation(name: str) -> Operation:
    """Loads an operation by name, which imports the oracles that it asks. Raises UsageError for an unknown name."""
    check_name(name)
    return _loaded(OPERATIONS[name])


@cache
def _loaded(place: str) -> Operation:
    module, _, name = place.partition(":")
    found: Operation = getattr(import_module(module), name)
    return found
