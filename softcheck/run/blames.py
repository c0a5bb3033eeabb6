"""Crashes that their own call does not show again when it is made alone, and whom they are laid at. Imports no torch."""

import threading
from collections.abc import Callable

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What a report must run, one after the other in one process, to show a finding again."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...] = ()
    probes: tuple[str, ...] = ()
    quick: bool = False
    seed: int = 0
    check_heap: bool = False


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise of one variant that showed in another call than the one that broke it, or by chance."""

    variant: str
    dtype: str
    case: str
    """Id of the case, or ``probe/NAME/LABEL``, that is to blame; where nothing showed it again, of the one that crashed."""
    violation: Violation
    command: Command
    is_reproduced: bool
    crashes: int = 1
    """How often the variant's processes ended so."""


class Blames:
    """Blames so far, one per variant and dtype of the calls that crashed. Threads may share it."""

    def __init__(self) -> None:
        self.looking = threading.Lock()
        """Held while a culprit is looked for: what one thread finds explains what others then meet."""
        self.on_found: Callable[[str, str, Blame], None] = lambda _variant, _dtype, _blame: None
        """Told of each with the variant and dtype that crashed; and again, with the new count, of each further crash."""
        self.notes: list[str] = []
        """Ends of processes that several variants had used, none of which shows them again."""
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Blame] = {}
        self._own: set[tuple[str, FindingKind]] = set()

    def add(self, variant: str, dtype: str, blame: Blame) -> None:
        """Takes up what a crash of ``variant`` in ``dtype`` was found to come from."""
        with self._lock:
            self._found[variant, dtype] = blame
        self.on_found(variant, dtype, blame)

    def known(self, variants: set[str], dtype: str) -> tuple[str, Blame] | None:
        """Who is known to have ended a process in this dtype, of the variants that ran in it, and counts that once more."""
        with self._lock:
            for (variant, of), blame in self._found.items():
                if of == dtype and blame.variant in variants:
                    more = msgspec.structs.replace(blame, crashes=blame.crashes + 1)
                    self._found[variant, of] = more
                    return variant, more
        return None

    def all(self) -> list[Blame]:
        """Each once: one call may have ended processes of several variants and in several dtypes."""
        with self._lock:
            found = list(self._found.values())
        return list({(blame.variant, blame.dtype, blame.case): blame for blame in found}.values())

    def confirm(self, variant: str, kind: FindingKind) -> None:
        """A call of the variant ends its process in this way whatever ran before it."""
        with self._lock:
            self._own.add((variant, kind))

    def is_confirmed(self, variant: str, kind: FindingKind) -> bool:
        """Whether that has been seen of one of its calls."""
        with self._lock:
            return (variant, kind) in self._own
