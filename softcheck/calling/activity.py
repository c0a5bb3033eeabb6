"""The current phase of this process, shown to another process: its own work, a variant's call, or a first call's wait.

Sixteen bytes of shared memory hold the phase, and the seconds that a first call has spent in other code than that of
imports and compilers. The parent reads them while it waits, even while a call holds Python's lock. Imports neither torch
nor Triton.
"""

import mmap
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

SIZE = 16
_STATE = struct.Struct("=Q")
_SECONDS = struct.Struct("=d")

_LOOK_SECONDS = 0.1
"""Between two looks at what a first call does."""

_PREPARERS = (
    "importlib",
    "subprocess",
    "torch._dynamo",
    "torch._inductor",
    "torch.utils.cpp_extension",
    "triton.backends",
    "triton.compiler",
    "triton.runtime.build",
    "numba",
    "jax",
    "tvm",
    "cutlass",
)
"""Modules whose functions, anywhere on the stack, mean that something is imported or compiled."""


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
        self.is_watched = False

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


def spent_in(memory: mmap.mmap) -> float:
    """Returns the seconds that the latest first call in the process that writes to ``memory`` has spent in neither imports nor compilers.

    It is 0 where first calls are not watched.
    """
    (seconds,) = _SECONDS.unpack_from(memory, _STATE.size)
    return float(seconds)


def watch_first_calls() -> None:
    """Tells from now on what part of a first call is spent in neither imports nor compilers.

    It is for processes without a GPU: what a GPU's first call waits for, such as the loading of its code, shows in no
    stack.
    """
    _shown.is_watched = True


def expect_a_first_call() -> None:
    """The next call is a variant's first in this process, which may import and compile much."""
    _shown.is_first = True


@contextmanager
def calling() -> Iterator[None]:
    """A variant's function runs, or what it launched. Raises ExitedError, with its traceback, in place of a SystemExit."""
    first, _shown.is_first = _shown.is_first, False
    with _during(Phase.PREPARING if first else Phase.CALLING):
        if first and _shown.is_watched and _shown.memory is not None:
            with _watched(_shown.memory, threading.get_ident()):
                yield from _outliving_exits()
        else:
            yield from _outliving_exits()


def _outliving_exits() -> Iterator[None]:
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


@contextmanager
def _watched(memory: mmap.mmap, caller: int) -> Iterator[None]:
    """Counts the seconds of a call by looks at the caller's stack, from a thread that ends with the call."""
    is_over = threading.Event()

    def look() -> None:
        spent, before = 0.0, time.monotonic()
        while not is_over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            if not _is_preparing(caller):
                spent += now - before
                _SECONDS.pack_into(memory, _STATE.size, spent)
            before = now

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        _SECONDS.pack_into(memory, _STATE.size, 0.0)


def _is_preparing(caller: int) -> bool:
    frame = sys._current_frames().get(caller)  # noqa: SLF001 - the documented way to another thread's stack
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if any(name == module or name.startswith(f"{module}.") for module in _PREPARERS):
            return True
        frame = frame.f_back
    return False
