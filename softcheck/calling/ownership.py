"""Whose code an object is, and what a thread runs: a variant's, or that of a library, which may keep handlers, threads and names for itself."""

import functools
import sys
import sysconfig
import threading
import time
from concurrent.futures import thread as pools
from functools import cache
from pathlib import Path
from types import FrameType

_LIBRARIES = frozenset({"torch", "triton", "concurrent", "multiprocessing", "tqdm"})
"""Packages that patch torch's names and keep threads for purposes of their own."""

INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))
"""Folders of Python's own modules and of installed packages."""


def is_of_library(value: object) -> bool:
    """True if an object's module is part of torch, of Triton, or of a library that these run their own work with."""
    return _module_name(value).partition(".")[0] in _LIBRARIES


def is_installed(value: object) -> bool:
    """True if an object's module lies in a folder of Python's own modules or of installed packages."""
    module = sys.modules.get(_module_name(value))
    file = Path(getattr(module, "__file__", None) or "nowhere").resolve()
    return any(file.is_relative_to(folder) for folder in INSTALLED)


def _module_name(value: object) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    return getattr(value, "__module__", None) or ""


_STANDARD = Path(sysconfig.get_path("stdlib")).resolve()
_OWN = Path(__file__).resolve().parents[1]
_MOMENT = 0.02
"""Seconds within which a pool's thread begins with a task that it was given."""


def is_foreign(thread: threading.Thread) -> bool:
    """True if a thread runs the variant's code. Threads of installed libraries, which may keep some, don't count."""
    runs = getattr(thread, "function", None) or getattr(thread, "_target", None) or type(thread)
    return thread.is_alive() and not is_of_library(runs) and not is_installed(runs)


def at_work() -> dict[int, str]:
    """Threads of pools, and such as Python does not list, in the middle of a variant's code: by identity, with the function they began with."""
    _let_tasks_begin()
    others = {thread.ident for thread in threading.enumerate() if not _is_of_pool(thread)}
    others.add(threading.get_ident())
    # This thread's own frame, kept in one of its variables, would keep everything in it until the garbage is collected.
    current = sys._current_frames  # noqa: SLF001 - documented, and the only way to see other threads' work
    frames = {identity: frame for identity, frame in current().items() if identity not in others}
    return {identity: name for identity, frame in frames.items() if (name := _variants_function(frame)) is not None}


def _is_of_pool(thread: threading.Thread) -> bool:
    module = getattr(getattr(thread, "_target", None), "__module__", None) or ""
    return module.partition(".")[0] in ("concurrent", "multiprocessing")


def _let_tasks_begin() -> None:
    """Waits a moment while tasks lie in the queues of thread pools, where they can't be told from a library's."""
    queues = list(getattr(pools, "_threads_queues", {}).values())
    end = time.monotonic() + _MOMENT
    while any(queue.qsize() for queue in queues) and time.monotonic() < end:
        time.sleep(0.001)


def _variants_function(innermost: FrameType) -> str | None:
    outermost = None
    frame: FrameType | None = innermost
    while frame is not None:
        if not _is_within(frame.f_code.co_filename, standard=True):
            outermost = frame
        frame = frame.f_back
    if outermost is None or _is_within(outermost.f_code.co_filename, standard=False):
        return None
    return outermost.f_code.co_name


@cache
def _is_within(filename: str, *, standard: bool) -> bool:
    """True if a file is part of the standard library, or else of an installed package or of softcheck."""
    if filename.startswith("<frozen"):
        return True
    path = Path(filename).resolve()
    installed = [folder for folder in INSTALLED if folder != _STANDARD]
    is_package = any(path.is_relative_to(folder) for folder in (*installed, _OWN))
    return path.is_relative_to(_STANDARD) and not is_package if standard else is_package
