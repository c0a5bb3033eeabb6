"""How long a run bears with a variant that ends its workers or runs out of time. Imports no torch."""

import collections
import math
import threading
import time
from typing import NamedTuple

from softcheck.contract import FindingKind, Violation

MOST_TIMEOUTS = 3
"""After so many calls that ran out of time a variant is given up, or it would hold the run for hours."""

MOST_DEATHS = 5
"""After so many calls that ended their worker, and none that did not, a variant is given up in a dtype: a new worker takes
seconds, and a report has hundreds of calls. One answer is enough to go on to the end, since others may be right too."""


HANG_SECONDS = 60.0
"""For so long in all a variant may keep others waiting without an answer, or for one call where that is longer."""

_ANSWERS = 5
"""After so many answers a variant's calls are known well enough to foresee how long others take."""

_TIMES = 50.0
_LEAST_SECONDS = 15.0

_ALMOST = 0.9
"""Of its time, after which a variant is given up: what is left is too little for another call."""


class Over(NamedTuple):
    """Why a variant is called no more."""

    kind: FindingKind
    why: str


class Patience:
    """Counts by variant and dtype. Threads may share it."""

    def __init__(self, most_seconds: float = HANG_SECONDS) -> None:
        """``most_seconds`` are for how long a variant may hang in all."""
        self.most_seconds = most_seconds
        self._lock = threading.Lock()
        self._timeouts: collections.Counter[str] = collections.Counter()
        self._deaths: collections.Counter[tuple[str, str]] = collections.Counter()
        self._hung: dict[str, tuple[float, float]] = {}
        """Seconds by variant, and until when they are counted: workers that hang side by side cost no more than one."""
        self._slowest: dict[str, tuple[int, float, int]] = {}
        """By variant: answers, seconds of the slowest, elements of the largest input."""
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

    def hung(self, variant: str, seconds: float) -> None:
        """Takes note of a call that did not answer for the last ``seconds``."""
        now = time.monotonic()
        with self._lock:
            spent, until = self._hung.get(variant, (0.0, -math.inf))
            self._hung[variant] = spent + now - max(until, now - seconds), now

    def answered(self, variant: str, elements: int, seconds: float) -> None:
        """Takes note of a call's answer."""
        with self._lock:
            count, slowest, largest = self._slowest.get(variant, (0, 0.0, 1))
            self._slowest[variant] = count + 1, max(slowest, seconds), max(largest, elements)

    def left(self, variant: str, most: float) -> float:
        """Seconds that a call may take: ``most``, or what is left of those for which the variant may hang, and 1 at least."""
        with self._lock:
            return max(1.0, min(most, self.most_seconds - self._hung.get(variant, (0.0, 0.0))[0]))

    def foreseen(self, variant: str, elements: int | None, most: float) -> float:
        """Seconds after which a call is taken for hanging, at first: many times what others took, and at most ``most``.

        It is then made again with all the time that a call may take. ``elements`` of its input are None where they are not known.
        """
        with self._lock:
            count, slowest, largest = self._slowest.get(variant, (0, 0.0, 1))
        if count < _ANSWERS or elements is None:
            return most
        return min(most, max(_LEAST_SECONDS, _TIMES * slowest * max(1.0, elements / largest)))

    def over(self, variant: str, dtype: str) -> Over | None:
        """Why the variant is called no more in this dtype, or None while it is."""
        with self._lock:
            if self._hung.get(variant, (0.0, 0.0))[0] >= _ALMOST * self.most_seconds:
                return Over(FindingKind.TIMEOUT, f"it did not answer for {self._hung[variant][0]:.0f} s in all")
            if self._timeouts[variant] >= MOST_TIMEOUTS:
                return Over(FindingKind.TIMEOUT, f"{MOST_TIMEOUTS} calls ran out of time")
            if (variant, dtype) in self._dead:
                return Over(FindingKind.CRASH, f"each of the first {MOST_DEATHS} calls in {dtype} ended its process")
        return None
