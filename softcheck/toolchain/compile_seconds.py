"""Seconds that Triton's compiler takes in this process, also for kernels that it finds compiled in its cache.

A kernel's seconds are kept in a file of softcheck's own beside the kernel in Triton's cache. A kernel compiled earlier
counts with the seconds that it took then, so a report on a warm cache says the same as on a cold one.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

from softcheck.calling import activity, launches

_FILE = "softcheck-seconds"
_MARK = "_softcheck_metered"


class Meter:
    """Sums up what kernels cost since ``reset``."""

    def __init__(self) -> None:
        self._cpu_before = 0.0
        self.reset()

    def reset(self) -> None:
        """Begins anew."""
        self.kernels = 0
        """Kernels that were compiled or found in the cache."""
        self.seconds = 0.0
        """Seconds of all kernels whose cost is known. Time that the compiler waited for a busy machine doesn't
        count."""
        self.has_unknown = False
        """True if the cache held a kernel whose compile time nobody recorded."""

    def begin(self) -> None:
        """A kernel is about to be compiled."""
        self._cpu_before = _cpu_seconds()

    def __call__(self, *, metadata_group: dict[str, str], times: Any, cache_hit: bool, **_: Any) -> None:
        """Triton's listener: a kernel is there. Metadata name its files; times are in microseconds."""
        self.kernels += 1
        note = next((Path(file).with_name(_FILE) for file in metadata_group.values()), None)
        if cache_hit:
            seconds = _read(note)
        else:
            # Less than the clock's where other processes had the cores; more where several of its threads did.
            seconds = min(times.total / 1e6, _cpu_seconds() - self._cpu_before)
            _write(note, seconds)
        if seconds is None:
            self.has_unknown = True
        else:
            self.seconds += seconds


METER = Meter()
"""This process's own."""


def install() -> None:
    """Makes Triton report each kernel to ``METER``, and each launch to ``launches``.

    It must be called once, before a variant is imported.
    """
    import triton
    from triton.runtime.jit import JITFunction

    from softcheck.toolchain.interpreter import wrap

    triton.knobs.compilation.listener = METER
    if hasattr(JITFunction._do_compile, _MARK):  # noqa: SLF001 - nothing public tells that a compilation begins
        return

    def running(original: Any, *args: Any, **kwargs: Any) -> Any:
        launched = original(*args, **kwargs)
        # A call that ends in the compiler has launched nothing.
        launches.note()
        return launched

    def compiling(original: Any, *args: Any, **kwargs: Any) -> Any:
        METER.begin()
        with activity.preparing():
            return original(*args, **kwargs)

    wrap(JITFunction, "run", running)
    wrap(JITFunction, "_do_compile", compiling)
    setattr(JITFunction._do_compile, _MARK, True)  # noqa: SLF001


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the processes that it has waited for, such as ptxas."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _read(note: Path | None) -> float | None:
    try:
        return None if note is None else float(note.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _write(note: Path | None, seconds: float) -> None:
    # A cache that can't be written to is no reason to fail.
    with contextlib.suppress(OSError):
        if note is not None:
            whole = note.with_name(f"{_FILE}.{os.getpid()}")
            whole.write_text(f"{seconds:.3f}", encoding="ascii")
            whole.replace(note)
