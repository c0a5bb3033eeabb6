"""Crashes that their own call does not reproduce alone, and the call or variant to blame for each. Imports no torch."""

import threading
from collections.abc import Callable

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.variants.declaration import Declaration


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a report must make, one after the other in one process, to show a finding again."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...] = ()
    probes: tuple[str, ...] = ()
    quick: bool = False
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
        self.computing: dict[str, str] = {}
        """Options that name the operation whose answers a variant gives, for those that were judged as another."""
        self.notes: list[str] = []
        """Messages on crashes that nothing reproduced, in processes that several variants had used."""
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Blame] = {}
        self._own: set[tuple[str, FindingKind]] = set()

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

    def is_confirmed(self, variant: str, kind: FindingKind) -> bool:
        """True if a call of the variant is known to end its process in this way whatever ran before it."""
        with self._lock:
            return (variant, kind) in self._own
