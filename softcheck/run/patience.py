"""Limits after which a variant that ends its workers or runs out of time is given up. Imports no torch."""

import collections
import math
import threading
import time
from typing import NamedTuple

from softcheck.contract import FindingKind, Violation

MOST_TIMEOUTS = 3
"""Timeouts after which a variant is given up; otherwise it would hold the run for hours."""

MOST_DEATHS = 5
"""Deaths of workers, without one answer, after which a variant is given up in a dtype. Each new worker takes seconds,
and a report has hundreds of calls. After one answer the variant is not given up for deaths, since more answers may
follow."""


HANG_SECONDS = 60.0
"""Seconds in all that a variant may take without an answer. A single call that may take longer raises this limit."""

_ALMOST = 0.9
"""Share of its seconds after which a variant is given up: the rest is too little for another call."""


class Over(NamedTuple):
    """The reason why a variant is called no more."""

    kind: FindingKind
    why: str


class Patience:
    """Counts of timeouts, deaths and answers by variant and dtype. Threads may share this object."""

    def __init__(self, most_seconds: float = HANG_SECONDS) -> None:
        """``most_seconds`` are the seconds in all that a variant may hang."""
        self.most_seconds = most_seconds
        self._lock = threading.Lock()
        self._timeouts: collections.Counter[str] = collections.Counter()
        self._deaths: collections.Counter[tuple[str, str]] = collections.Counter()
        self._hung: dict[str, tuple[float, float]] = {}
        """Seconds without an answer by variant, and the time up to which they are counted. Overlapping hangs count
        once."""
        self._alive: set[tuple[str, str]] = set()
        self._dead: set[tuple[str, str]] = set()
        """Variants given up for good, whatever a call still under way returns: calls were left out by then."""
        self._never_began: dict[str, str] = {}
        """The words on the first call of variants that never returned from it, by variant."""

    def count(self, variant: str, dtype: str, violations: tuple[Violation, ...]) -> None:
        """Counts the result of a call."""
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

    def never_began(self, variant: str, said: str) -> None:
        """Gives a variant up whose first call, on an ordinary input, did not return; ``said`` tells of that call."""
        with self._lock:
            self._never_began[variant] = said

    def hung(self, variant: str, seconds: float) -> None:
        """Counts a call that did not answer for the last ``seconds``."""
        now = time.monotonic()
        with self._lock:
            spent, until = self._hung.get(variant, (0.0, -math.inf))
            self._hung[variant] = spent + now - max(until, now - seconds), now

    def left(self, variant: str, most: float) -> float:
        """Seconds that a call may take: the lesser of ``most`` and the seconds that the variant may still hang.

        It is at least 1.
        """
        with self._lock:
            return max(1.0, min(most, self.most_seconds - self._hung.get(variant, (0.0, 0.0))[0]))

    def over(self, variant: str, dtype: str) -> Over | None:
        """Returns the reason why the variant is called no more in this dtype, or None."""
        with self._lock:
            if variant in self._never_began:
                return Over(FindingKind.TIMEOUT, self._never_began[variant])
            if self._hung.get(variant, (0.0, 0.0))[0] >= _ALMOST * self.most_seconds:
                return Over(FindingKind.TIMEOUT, f"it did not answer for {self._hung[variant][0]:.0f} s in all")
            if self._timeouts[variant] >= MOST_TIMEOUTS:
                return Over(FindingKind.TIMEOUT, f"{MOST_TIMEOUTS} calls ran out of time")
            if (variant, dtype) in self._dead:
                return Over(FindingKind.CRASH, f"each of the first {MOST_DEATHS} calls in {dtype} ended its process")
        return None
