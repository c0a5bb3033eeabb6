"""Names of the probes, known without importing torch, and where each is."""

import importlib
from typing import TYPE_CHECKING

from softcheck.errors import UsageError, near_matches

if TYPE_CHECKING:
    from softcheck.probes.base import Probe

PROBES: dict[str, str] = {
    "empties": "no rows, no columns, and empty slices of larger matrices",
    "arithmetic": "compiled kernels that compute otherwise than declared, read off their PTX",
}
"""Probes in the order in which they run, each with what it looks for; ``softcheck.probes.NAME`` holds its ``PROBE``."""

EXCLUSIVE: frozenset[str] = frozenset()
"""Probes that fill a GPU's memory or time, so that none may run beside them on one."""


def load(name: str) -> "Probe":
    """A probe by name. Imports torch. Raises UsageError for an unknown name."""
    check_name(name)
    probe: Probe = importlib.import_module(f"softcheck.probes.{name}").PROBE
    return probe


def check_name(name: str) -> str:
    """The name itself. Raises UsageError, with near matches, where no probe has it."""
    if name not in PROBES:
        raise UsageError(f"unknown probe {name!r}; {near_matches(name, list(PROBES))}")
    return name
