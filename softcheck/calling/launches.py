"""Counts the Triton kernels that this process has interpreted or launched, and the programs interpreted. Imports neither torch nor Triton."""

from collections.abc import Iterator
from contextlib import contextmanager

_counter = [0]
_programs = [0]


def note() -> None:
    """Counts one launch."""
    _counter[0] += 1


def counted() -> int:
    """Launches so far."""
    return _counter[0]


def note_programs(number: int) -> None:
    """Counts the programs of an interpreted launch."""
    _programs[0] += number


def programs() -> int:
    """Programs interpreted so far."""
    return _programs[0]


@contextmanager
def forgotten() -> Iterator[None]:
    """Does not count the launches inside the block."""
    before = _counter[0]
    try:
        yield
    finally:
        _counter[0] = before
