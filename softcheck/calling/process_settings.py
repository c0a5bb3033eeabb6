"""Settings of Python and of the operating system's process that other code relies on, and how each is put back.

What only its owner feels is not among them: names that are added, search paths that grow, warnings that are no longer shown,
a recursion limit that is raised. Libraries do such things while they are imported, as many are at a variant's first call.
"""

import decimal
import gc
import locale
import os
import re
import resource
import signal
import sys
import threading
import warnings
from typing import Any

from softcheck.calling.ownership import is_installed
from softcheck.calling.settings import GlobalSetting

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
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def _read_handlers() -> dict[int, Any]:
    """Each signal's handler; none outside of the main thread, which alone may set them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _changed_handlers(before: dict[int, Any], now: dict[int, Any]) -> list[int]:
    """Names signals whose handler has changed, unless the new handler is an installed library's own.

    DataLoader, for one, watches its processes with a handler.
    """
    return [
        number
        for number, handler in now.items()
        if handler != before.get(number) and (isinstance(handler, signal.Handlers) or not is_installed(handler))
    ]


def _tell_handlers(before: dict[int, Any], now: dict[int, Any]) -> str:
    return "" if now == before else ", ".join(signal.Signals(n).name for n in _changed_handlers(before, now))


def _write_handlers(before: dict[int, Any]) -> None:
    for number in _changed_handlers(before, _read_handlers()):
        if before.get(number) is None:
            raise RuntimeError(f"signal {number} had a handler that Python didn't install, and can't have it back")
        signal.signal(number, before[number])


def _read_timers() -> tuple[bool, ...]:
    """True for each of the process's interval timers that runs."""
    return tuple(signal.getitimer(timer)[0] > 0 for timer in _TIMERS)


def _tell_timers(before: tuple[bool, ...], now: tuple[bool, ...]) -> str:
    started = [
        timer for timer, ran, runs in zip(("real", "virtual", "profiling"), before, now, strict=True) if runs > ran
    ]
    return ", ".join(f"the {timer} one runs" for timer in started)


def _write_timers(before: tuple[bool, ...]) -> None:
    for timer, ran in zip(_TIMERS, before, strict=True):
        if not ran:
            signal.setitimer(timer, 0)


def _read_tracing() -> tuple[Any, ...]:
    """Reads the functions that trace or profile Python, in this thread and new ones, and ``sys.monitoring``'s tools."""
    monitoring = getattr(sys, "monitoring", None)
    tools = () if monitoring is None else tuple(monitoring.get_tool(identifier) for identifier in range(6))
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(), tools


def _tell_tracing(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    names = ("sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile", "sys.monitoring")
    return ", ".join(name for name, old, new in zip(names, before, now, strict=True) if old != new)


def _write_tracing(before: tuple[Any, ...]) -> None:
    trace, profile, trace_new, profile_new, tools = before
    for write, value in (
        (sys.settrace, trace),
        (sys.setprofile, profile),
        (threading.settrace, trace_new),
        (threading.setprofile, profile_new),
    ):
        write(value)
    monitoring: Any = getattr(sys, "monitoring", None)
    for identifier, tool in enumerate(tools):
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


_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _read_decimal() -> tuple[Any, ...]:
    """The decimal context of this thread, but for the flags, which arithmetic itself sets."""
    context = decimal.getcontext()
    return (*(getattr(context, name) for name in _DECIMAL), dict(context.traps))


def _write_decimal(before: tuple[Any, ...]) -> None:
    *values, traps = before
    context = decimal.getcontext()
    for name, value in zip(_DECIMAL, values, strict=True):
        setattr(context, name, value)
    context.traps.update(traps)


_LIMITS = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")


def _read_limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS}


def _tell_limits(before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> str:
    lowered = [name for name in _LIMITS if _room(now[name][0]) < _room(before[name][0])]
    return ", ".join(f"{name} from {before[name][0]} to {now[name][0]}" for name in lowered)


def _room(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def _write_limits(before: dict[str, tuple[int, int]]) -> None:
    for name, limits in before.items():
        resource.setrlimit(getattr(resource, name), limits)


_STREAMS = ("stdin", "stdout", "stderr")


def _read_streams() -> tuple[tuple[Any, bool], ...]:
    """The standard streams, each with whether it is closed."""
    streams = [getattr(sys, name) for name in _STREAMS]
    return tuple((stream, _is_closed(stream)) for stream in streams)


def _is_closed(stream: Any) -> bool:
    return bool(getattr(stream, "closed", False))


def _tell_streams(before: tuple[tuple[Any, bool], ...], now: tuple[tuple[Any, bool], ...]) -> str:
    told = []
    for name, (stream, was_closed), (other, is_closed) in zip(_STREAMS, before, now, strict=True):
        if other is not stream:
            told.append(f"sys.{name} was replaced")
        elif is_closed > was_closed:
            told.append(f"sys.{name} was closed")
    return ", ".join(told)


def _write_streams(before: tuple[tuple[Any, bool], ...]) -> None:
    for name, (stream, was_closed) in zip(_STREAMS, before, strict=True):
        setattr(sys, name, stream)
        if _is_closed(stream) > was_closed:
            raise RuntimeError(f"sys.{name} is closed, and can't be opened again")


def _missing_folders(before: list[str], now: list[str]) -> str:
    return ", ".join(repr(folder) for folder in before if folder not in now)


def _write_path(before: list[str]) -> None:
    added = [folder for folder in sys.path if folder not in before]
    sys.path[:] = [*before, *added]


def _working_folder() -> str | None:
    """None where it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - as it came, to be compared
    except FileNotFoundError:
        return None


def _go_to(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _lowered(before: int, now: int) -> str:
    return f"from {before} to {now}" if now < before else ""


SETTINGS = (
    # First: a timer's handler may come between any two instructions of what follows.
    GlobalSetting("timers", _read_timers, _write_timers, _tell_timers),
    GlobalSetting("the handling of signals", _read_handlers, _write_handlers, _tell_handlers),
    GlobalSetting(
        "blocked signals",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    GlobalSetting("functions that trace or profile Python code", _read_tracing, _write_tracing, _tell_tracing),
    GlobalSetting(
        "the locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)
    ),
    GlobalSetting("warnings", _read_raising_filters, _write_filters, _tell_filters),
    GlobalSetting("the decimal context", _read_decimal, _write_decimal),
    GlobalSetting("garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    GlobalSetting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, _lowered),
    GlobalSetting("limits of resources", _read_limits, _write_limits, _tell_limits),
    GlobalSetting("standard streams", _read_streams, _write_streams, _tell_streams),
    GlobalSetting("the module search path", lambda: list(sys.path), _write_path, _missing_folders),
    GlobalSetting("the working folder", _working_folder, _go_to),
    GlobalSetting("environment variables", _environment, _write_environment, _tell_environment),
)
