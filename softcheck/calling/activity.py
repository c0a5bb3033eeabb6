"""The current phase of this process, shown to another process: its own work, a variant's call, or what prepares one.

Eight bytes of shared memory hold the phase. The parent reads them while it waits, even while a call holds Python's lock.
Imports neither torch nor Triton.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

SIZE = 8
_STATE = struct.Struct("=Q")


class Phase(IntEnum):
    """Phase of a worker process. It tells to whom the time is charged."""

    OWN = 0
    """softcheck makes inputs or judges."""
    CALLING = 1
    """The variant's function runs, or the device works on what it launched."""
    PREPARING = 2
    """A variant is imported, called for the first time in a process, or a kernel of it is compiled."""


class ExitedError(Exception):
    """Raised in place of the SystemExit of a variant's call, so that it is the call's error and does not end the worker."""


class _ShownPhase:
    def __init__(self) -> None:
        self.memory: mmap.mmap | None = None
        self.phase = Phase.OWN
        self.changes = 0
        self.is_first = False

    def show(self, phase: Phase) -> Phase:
        before, self.phase = self.phase, phase
        if self.memory is not None:
            self.changes += 1
            _STATE.pack_into(self.memory, 0, self.changes << 2 | phase)
        return before


_shown = _ShownPhase()


def show_in(descriptor: int) -> None:
    """Shows what goes on in this file of ``SIZE`` bytes from now on."""
    _shown.memory = mmap.mmap(descriptor, SIZE)


def state_in(memory: mmap.mmap) -> tuple[int, Phase]:
    """Returns the number of phase changes in the process that writes to ``memory``, and the current phase."""
    (state,) = _STATE.unpack_from(memory, 0)
    return state >> 2, Phase(state & 3)


def expect_a_first_call() -> None:
    """The next call is a variant's first in this process, which may import and compile much."""
    _shown.is_first = True


@contextmanager
def calling() -> Iterator[None]:
    """A variant's function runs, or what it launched. Raises ExitedError, with its traceback, in place of a SystemExit."""
    first, _shown.is_first = _shown.is_first, False
    with _during(Phase.PREPARING if first else Phase.CALLING):
        try:
            yield
        except SystemExit as error:
            raise ExitedError(f"SystemExit({error.code!r})").with_traceback(error.__traceback__) from error


@contextmanager
def preparing() -> Iterator[None]:
    """Something is imported or compiled."""
    with _during(Phase.PREPARING):
        yield


@contextmanager
def _during(phase: Phase) -> Iterator[None]:
    before = _shown.show(phase)
    try:
        yield
    finally:
        _shown.show(before)
