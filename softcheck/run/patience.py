"""How long a run bears with a variant that ends its workers or runs out of time. Imports no torch."""

import collections
import threading
from typing import NamedTuple

from softcheck.contract import FindingKind, Violation

MOST_TIMEOUTS = 3
"""After so many calls that ran out of time a variant is given up, or it would hold the run for hours."""

MOST_DEATHS = 5
"""After so many calls that ended their worker, and none that did not, a variant is given up in a dtype: a new worker takes
seconds, and a report has hundreds of calls. One answer is enough to go on to the end, since others may be right too."""


class Over(NamedTuple):
    """Why a variant is called no more."""

    kind: FindingKind
    why: str


class Patience:
    """Counts by variant and dtype. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timeouts: collections.Counter[str] = collections.Counter()
        self._deaths: collections.Counter[tuple[str, str]] = collections.Counter()
        self._alive: set[tuple[str, str]] = set()
        self._dead: set[tuple[str, str]] = set()
        """Given up for good, whatever a call that was under way comes to: calls were left out by then."""

    def count(self, variant: str, dtype: str, violations: tuple[Violation, ...]) -> None:
        """Takes note of what a call came to."""
        kinds = {violation.kind for violation in violations}
        with self._lock:
            if FindingKind.TIMEOUT in kinds:
                self._timeouts[variant] += 1
            elif FindingKind.CRASH in kinds:
                self._deaths[variant, dtype] += 1
                if self._deaths[variant, dtype] >= MOST_DEATHS and (variant, dtype) not in self._alive:
                    self._dead.add((variant, dtype))
            else:
                self._alive.add((variant, dtype))

    def over(self, variant: str, dtype: str) -> Over | None:
        """Why the variant is called no more in this dtype, or None while it is."""
        with self._lock:
            if self._timeouts[variant] >= MOST_TIMEOUTS:
                return Over(FindingKind.TIMEOUT, f"{MOST_TIMEOUTS} calls ran out of time")
            if (variant, dtype) in self._dead:
                return Over(FindingKind.CRASH, f"each of the first {MOST_DEATHS} calls in {dtype} ended its process")
        return None
