"""Crashes that their own call does not reproduce alone, and the call or variant to blame for each. Imports no torch."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.probes.registry import Effort
from softcheck.variants.declaration import Declaration


class Fault(NamedTuple):
    """What findings have in common of which one is shown again for all."""

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
        self.declarations: dict[str, Declaration] = {}
        """Declarations of the variants that were loaded."""
        self.at_defaults: dict[str, tuple[str, ...]] = {}
        """Parameters of each variant's function that keep their defaults in its calls."""
        self.notes: list[str] = []
        """Messages on findings that nothing showed again."""
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Blame] = {}
        self._own: set[tuple[str, FindingKind]] = set()
        self._shown: set[Fault] = set()
        self._fruitless: Counter[Fault] = Counter()

    def add(self, variant: str, dtype: str, blame: Blame) -> None:
        """Records the blame found for a crash of ``variant`` in ``dtype``."""
        with self._lock:
            self._found[variant, dtype] = blame
        self.on_found(variant, dtype, blame)

    def known(self, variants: set[str], dtype: str) -> tuple[str, Blame] | None:
        """Finds the blame for a crash in this dtype of a process in which ``variants`` ran, and counts the crash.

        Returns the variant whose crash is known with its blame, or None.
        """
        with self._lock:
            for (variant, of), blame in self._found.items():
                if of == dtype and blame.variant in variants:
                    more = msgspec.structs.replace(blame, crashes=blame.crashes + 1)
                    self._found[variant, of] = more
                    return variant, more
        return None

    def all(self) -> list[Blame]:
        """Returns each blame once: one call may have ended processes of several variants and in several dtypes."""
        with self._lock:
            found = list(self._found.values())
        return list({(blame.variant, blame.dtype, blame.case): blame for blame in found}.values())

    def confirm(self, variant: str, kind: FindingKind) -> None:
        """Records that a call of the variant ends its process in this way whatever ran before it."""
        with self._lock:
            self._own.add((variant, kind))

    def show(self, fault: Fault) -> None:
        """Records that a call alone in a new process has shown a fault, or that calls in their order have."""
        with self._lock:
            self._shown.add(fault)

    def is_shown(self, fault: Fault) -> bool:
        """True if the fault has been shown again, so that its further findings need not be."""
        with self._lock:
            return fault in self._shown

    def look_was_fruitless(self, fault: Fault) -> None:
        """Counts a finding of a fault that nothing showed again."""
        with self._lock:
            self._fruitless[fault] += 1

    def fruitless(self, fault: Fault) -> int:
        """Findings of a fault that nothing showed again."""
        with self._lock:
            return self._fruitless[fault]

    def note(self, words: str) -> None:
        """Adds a message on something that was seen once and did not show again."""
        with self._lock:
            self.notes.append(words)

    def is_confirmed(self, variant: str, kind: FindingKind) -> bool:
        """True if a call of the variant is known to end its process in this way whatever ran before it."""
        with self._lock:
            return (variant, kind) in self._own
