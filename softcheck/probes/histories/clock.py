"""A clock that variants see in place of the machine's: it all but stands still, and moves on where a history says so."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TICK = 1e-6
"""Seconds between two readings. A loop that waits comes to its end."""

_REAL: dict[str, Callable[[], Any]] = {
    name: getattr(time, name)
    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")
}


class StandInClock:
    """A clock of its own, which begins at the machine's time."""

    def __init__(self) -> None:
        self._begun = {name: read() for name, read in _REAL.items()}
        self._passed = 0
        self.tick = TICK
        """Seconds by which each reading is later than the one before."""

    def move(self, seconds: float) -> None:
        """Lets so much time pass."""
        self._passed += int(seconds * 1e9)

    def read(self, name: str) -> Any:
        """The reading of one of the functions of ``time``."""
        self.move(self.tick)
        return self._begun[name] + (self._passed if name.endswith("_ns") else self._passed / 1e9)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Lets the functions of ``time`` read this clock. What is imported meanwhile keeps stand-ins that know the real one."""
        before = _shown[-1:]
        _shown[:] = [self]
        vars(time).update(_STAND_INS)
        try:
            yield
        finally:
            _shown[:] = before
            vars(time).update(_STAND_INS if before else _REAL)


_shown: list[StandInClock] = []
"""The clock that is shown now, if one is."""


def _stand_in(name: str) -> Callable[[], Any]:
    return functools.wraps(_REAL[name])(lambda: _shown[0].read(name) if _shown else _REAL[name]())


_STAND_INS = {name: _stand_in(name) for name in _REAL}
