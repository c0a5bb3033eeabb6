"""Settings of Python and of the operating system's process that other code relies on, and how each is put back.

What only its owner feels is not among them: names that are added, search paths that grow, warnings that are no longer shown,
a recursion limit that is raised. Libraries do such things while they are imported, as many are at a variant's first call.
"""

import decimal
import gc
import locale
import operator
import os
import re
import resource
import signal
import sys
import threading
import warnings
from functools import partial
from typing import Any

from softcheck.calling.ownership import is_installed
from softcheck.calling.settings import GlobalSetting, Part, attributes, in_parts

_OF_LIBRARIES = re.compile(r"_?(TRITON_|TORCH|PYTORCH_|CUDA_|NVIDIA_|PTXAS_)|DISABLE_(LLVM|PTXAS)_OPT$")
"""Variables that torch, Triton and CUDA go by."""
_HARMLESS = re.compile(r"(^|_)(DIR|PATH|HOME|CACHE|LOGS?|DEBUG|DUMP|PRINT|TRACE|PROFILE|WARM|MODULE_LOADING|PTR)(_|$)")
"""Variables for folders of files and tables, for logging, and for the time of loading. torch and Triton set such
variables when they first compile."""


def _environment() -> dict[bytes, bytes]:
    # The public ways decode every variable, which takes a hundred times as long.
    return os.environ._data.copy()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001


def _changed_variables(before: dict[bytes, bytes], now: dict[bytes, bytes]) -> list[str]:
    """Names of variables whose value has changed, and of new variables that torch, Triton or CUDA read."""
    if before == now:
        return []
    changed = [os.fsdecode(name) for name, value in before.items() if not _still_has(value, now.get(name))]
    added = [os.fsdecode(name) for name in now if name not in before]
    counting = changed + [name for name in added if _OF_LIBRARIES.match(name)]
    return [name for name in counting if not (_OF_LIBRARIES.match(name) and _HARMLESS.search(name))]


def _still_has(before: bytes, now: bytes | None) -> bool:
    """True if a variable is unchanged, or is a list of folders that has grown at an end."""
    separator = os.pathsep.encode()
    return now is not None and (now == before or now.startswith(before + separator) or now.endswith(separator + before))


def _tell_environment(before: dict[bytes, bytes], now: dict[bytes, bytes]) -> str:
    return ", ".join(
        f"{name} from {_shown(before, name)} to {_shown(now, name)}" for name in _changed_variables(before, now)
    )


def _shown(environment: dict[bytes, bytes], name: str) -> str:
    value = environment.get(os.fsencode(name))
    return "unset" if value is None else repr(os.fsdecode(value)[:60])


def _write_environment(before: dict[bytes, bytes]) -> None:
    for name in _changed_variables(before, _environment()):
        value = before.get(os.fsencode(name))
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = os.fsdecode(value)


_SIGNALS = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGCHLD),
    *(signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),
    *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV),
)
"""Signals that other processes, timers and faults send."""


def _read_handler(number: signal.Signals) -> Any:
    """A signal's handler, which the main thread alone may set."""
    return signal.getsignal(number) if threading.current_thread() is threading.main_thread() else None


def _write_handler(number: signal.Signals, before: Any) -> None:
    if before is None:
        raise RuntimeError(f"signal {number} had a handler that Python didn't install, and can't have it back")
    signal.signal(number, before)


def _is_other_handler(before: Any, now: Any) -> bool:
    """True if a handler has changed, unless the new one is an installed library's own, as DataLoader's is."""
    return now != before and (isinstance(now, signal.Handlers) or not is_installed(now))


def _timer(timer: int) -> Part:
    return lambda: signal.getitimer(timer)[0] > 0, lambda _: signal.setitimer(timer, 0)


def _read_tools() -> tuple[str | None, ...]:
    monitoring: Any = getattr(sys, "monitoring", None)
    return () if monitoring is None else tuple(monitoring.get_tool(identifier) for identifier in range(6))


def _write_tools(before: tuple[str | None, ...]) -> None:
    monitoring: Any = getattr(sys, "monitoring", None)
    for identifier, tool in enumerate(before):
        if tool is None and monitoring.get_tool(identifier) is not None:
            monitoring.set_events(identifier, 0)
            monitoring.free_tool_id(identifier)
        elif tool != monitoring.get_tool(identifier):
            raise RuntimeError(f"the monitoring tool {tool!r} was taken away, and can't be had back")


def _read_raising_filters() -> list[Any]:
    """The filters that turn warnings into exceptions: alone of all filters, they decide what other code computes."""
    return [each for each in warnings.filters if each[0] == "error"]


def _tell_filters(before: list[Any], now: list[Any]) -> str:
    return ", ".join(f"{each[2].__name__} is raised" for each in now if each not in before)


def _write_filters(before: list[Any]) -> None:
    kept = [each for each in warnings.filters if each[0] != "error" or each in before]
    warnings.filters[:] = kept  # type: ignore[index]
    # Entering and leaving tells the interpreter that its cache of what was warned of already no longer holds.
    with warnings.catch_warnings():
        pass


def _read_decimal() -> decimal.Context:
    """The decimal context of this thread, but for the flags, which arithmetic itself sets."""
    context = decimal.getcontext().copy()
    context.clear_flags()
    return context


def _limit(name: str) -> Part:
    number = getattr(resource, name)
    return lambda: resource.getrlimit(number), lambda limits: resource.setrlimit(number, limits)


def _is_lower(before: tuple[int, int], now: tuple[int, int]) -> bool:
    # Unlimited is -1.
    return 0 <= now[0] != before[0] and (before[0] < 0 or now[0] < before[0])


_STREAMS = ("stdin", "stdout", "stderr")


def _stream_state(name: str) -> Part:
    """True if a stream is closed, after which it can't be opened again."""

    def refuse(_: object) -> None:
        raise RuntimeError(f"sys.{name} is closed, and can't be opened again")

    return lambda: bool(getattr(getattr(sys, name), "closed", False)), refuse


def _write_path(before: list[str]) -> None:
    added = [folder for folder in sys.path if folder not in before]
    sys.path[:] = [*before, *added]


def _working_folder() -> str | None:
    """None where it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - as it came, to be compared
    except FileNotFoundError:
        return None


SETTINGS = (
    # First: a timer's handler may come between any two instructions of what follows.
    in_parts(
        "timers",
        {
            "the real one": _timer(signal.ITIMER_REAL),
            "the virtual one": _timer(signal.ITIMER_VIRTUAL),
            "the profiling one": _timer(signal.ITIMER_PROF),
        },
        operator.lt,
        "{} runs",
    ),
    in_parts(
        "the handling of signals",
        {number.name: (partial(_read_handler, number), partial(_write_handler, number)) for number in _SIGNALS},
        _is_other_handler,
        "{}",
    ),
    GlobalSetting(
        "blocked signals",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    in_parts(
        "functions that trace or profile Python code",
        {
            "sys.settrace": (sys.gettrace, sys.settrace),
            "sys.setprofile": (sys.getprofile, sys.setprofile),
            "threading.settrace": (threading.gettrace, threading.settrace),
            "threading.setprofile": (threading.getprofile, threading.setprofile),
            "sys.monitoring": (_read_tools, _write_tools),
        },
        words="{}",
    ),
    GlobalSetting(
        "the locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)
    ),
    GlobalSetting("warnings", _read_raising_filters, _write_filters, _tell_filters),
    GlobalSetting(
        "the decimal context",
        _read_decimal,
        decimal.setcontext,
        lambda before, now: "" if repr(now) == repr(before) else f"from {before} to {now}",
    ),
    GlobalSetting("garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    in_parts("the recursion limit", {"it": (sys.getrecursionlimit, sys.setrecursionlimit)}, operator.gt),
    in_parts(
        "limits of resources",
        {name: _limit(name) for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")},
        _is_lower,
    ),
    in_parts("standard streams", attributes(sys, *_STREAMS), operator.is_not, "sys.{} was replaced"),
    in_parts("standard streams", {name: _stream_state(name) for name in _STREAMS}, operator.lt, "sys.{} was closed"),
    GlobalSetting(
        "the module search path",
        lambda: list(sys.path),
        _write_path,
        lambda before, now: ", ".join(repr(folder) for folder in before if folder not in now),
    ),
    GlobalSetting("the working folder", _working_folder, lambda folder: folder is not None and os.chdir(folder)),  # type: ignore[func-returns-value]
    GlobalSetting("environment variables", _environment, _write_environment, _tell_environment),
)
