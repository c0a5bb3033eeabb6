"""Crashes that their own call does not reproduce alone, and the call or variant to blame for each. Imports no torch."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.probes.registry import Effort
from softcheck.run.protocol import Call


class Fault(NamedTuple):
    """The common part of findings of which one is shown again for all."""

    variant: str
    dtype: str
    kind: FindingKind
    cause: str = ""
    """Of an exception its type and place; empty for others."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a report must make, one after the other in one process, to show a finding again."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...] = ()
    probes: tuple[str, ...] = ()
    effort: Effort = "normal"
    seed: int = 0
    check_heap: bool = False


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise of one variant that showed by chance, or in another call than the call that broke it."""

    variant: str
    dtype: str
    case: str
    """Id of the case to blame, or ``probe/NAME/LABEL``. If nothing reproduced the crash, it is the id of the crashed
    call."""
    violation: Violation
    command: Command
    is_reproduced: bool
    crashes: int = 1
    """Processes that ended for this cause."""


class Blames:
    """Blames so far, one per variant and dtype of the crashed calls. Threads may share this object."""

    def __init__(self) -> None:
        self.looking = threading.Lock()
        """Held while a culprit is searched for: a culprit that one thread finds explains the crashes that other threads
        meet."""
        self.on_found: Callable[[str, str, Blame], None] = lambda _variant, _dtype, _blame: None
        """Called for each blame with the variant and dtype that crashed, and again with the new count for each further
        crash."""
        self.notes: list[str] = []
        """Messages on findings that nothing showed again. A list's and a counter's single steps need no lock."""
        self.shown: set[Fault] = set()
        """Faults that a call has shown again. One without a dtype ends the process whatever ran before it."""
        self.fruitless: Counter[Fault] = Counter()
        """Findings of each fault that nothing showed again."""
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Blame] = {}

    def note(self, call: Call, message: str, others: Sequence[str] = ()) -> None:
        """Notes what a call has shown once, and the other variants that had run in its process."""
        beside = f"; other variants had run in the process ({', '.join(others)})" if others else ""
        self.notes.append(f"{call.variant}, {call.dtype}, {call.name}: {message}{beside}")

    def add(self, variant: str, dtype: str, blame: Blame) -> None:
        """Records the blame found for a crash of ``variant`` in ``dtype``."""
        with self._lock:
            self._found[variant, dtype] = blame
        self.on_found(variant, dtype, blame)

    def known(self, variants: set[str], dtype: str) -> tuple[str, Blame] | None:
        """Returns the variant and the blame of a crash in this dtype of a process in which ``variants`` ran, counted once more."""
        with self._lock:
            for (variant, of), blame in self._found.items():
                if of == dtype and blame.variant in variants:
                    return variant, msgspec.structs.replace(blame, crashes=blame.crashes + 1)
        return None

    def all(self) -> list[Blame]:
        """Returns each blame once: one call may have ended processes of several variants and in several dtypes."""
        with self._lock:
            found = list(self._found.values())
        return list({(blame.variant, blame.dtype, blame.case): blame for blame in found}.values())
