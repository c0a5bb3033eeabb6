"""Lines of variants' own files that any call in this process has run, from Python 3.12 on.

Python reports each line once, and each function's start once (``sys.monitoring``, PEP 669), so that counting costs
next to nothing. Imports nothing but Python's own library.
"""

import atexit
import sys
from collections.abc import Collection
from types import CodeType
from typing import Any

_monitoring: Any = getattr(sys, "monitoring", None)

Line = tuple[str, int]
"""A file and the number of a line in it."""


class _Counter:
    """The variant that runs now, and the lines that each has run."""

    def __init__(self) -> None:
        self.variant = ""
        self.files: frozenset[str] = frozenset()
        self.lines: dict[str, set[Line]] = {}
        self.told: dict[str, set[Line]] = {}
        self.is_on = False

    def turn_on(self) -> None:
        """Asks Python for the events. Does nothing if another tool, such as coverage.py, takes the place."""
        self.is_on = _monitoring.get_tool(_monitoring.COVERAGE_ID) is None
        if self.is_on:
            events = _monitoring.events
            _monitoring.use_tool_id(_monitoring.COVERAGE_ID, "softcheck")
            _monitoring.register_callback(_monitoring.COVERAGE_ID, events.PY_START, self._on_start)
            _monitoring.register_callback(_monitoring.COVERAGE_ID, events.LINE, self._on_line)
            _monitoring.set_events(_monitoring.COVERAGE_ID, events.PY_START)
            # Python's own last calls find this module's names gone.
            atexit.register(_monitoring.set_events, _monitoring.COVERAGE_ID, 0)

    def _on_start(self, code: CodeType, _offset: int) -> Any:
        if code.co_filename in self.files:
            _monitoring.set_local_events(_monitoring.COVERAGE_ID, code, _monitoring.events.LINE)
        return _monitoring.DISABLE

    def _on_line(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self.files:
            self.lines[self.variant].add((code.co_filename, line))
        return _monitoring.DISABLE


_counter = _Counter()


def turn_on() -> None:
    """Begins to count, before any snapshot of what a process has set. Does nothing before Python 3.12."""
    if _monitoring is not None and not _counter.is_on:
        _counter.turn_on()


def attribute_to(variant: str, files: Collection[str]) -> None:
    """Counts lines of these files as run by this variant from now on. Does nothing before Python 3.12."""
    if _monitoring is None or _counter.variant == variant:
        return
    turn_on()
    _counter.variant, _counter.files = variant, frozenset(files)
    _counter.lines.setdefault(variant, set())
    if _counter.is_on:
        # Another variant of the same file may have run lines that are told no more.
        _monitoring.restart_events()


def is_counting() -> bool:
    """True if lines of all calls in this process are counted."""
    return _counter.is_on


def newly_run(variant: str) -> frozenset[Line]:
    """Lines that the variant has run since this function was asked last."""
    told = _counter.told.setdefault(variant, set())
    new = frozenset(_counter.lines.get(variant, set()) - told)
    told |= new
    return new
