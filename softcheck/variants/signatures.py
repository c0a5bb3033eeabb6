"""The path that a call takes: the kernels it launches, their compile-time constants and options, and the lines it runs.

Two calls with the same path are in the same regime. Numbers that follow the input's size, such as a block that is the
next power of two of the columns, are written as such, so that they do not tell paths apart.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

_LAUNCHERS = (JITFunction, InterpretedFunction)


class LaunchConstant(NamedTuple):
    """A compile-time constant or an option of a launch."""

    name: str
    value: int | float | str
    follows: str | None = None
    """The size of the input that the value equals, such as "columns"; None for other values."""

    def value_at(self, shape: tuple[int, int]) -> int | float | str:
        """The value that a constant that follows this size has for another shape."""
        return self.value if self.follows is None else _SIZES[self.follows](*shape)


class Launch(NamedTuple):
    """One launch of a kernel."""

    kernel: str
    constants: tuple[LaunchConstant, ...]

    def __str__(self) -> str:
        words = (f"{c.name}={c.follows or c.value}" for c in self.constants)
        return f"{self.kernel}({', '.join(words)})"


class CallPath(NamedTuple):
    """The path of one call."""

    launches: tuple[Launch, ...]
    lines: frozenset[tuple[str, int]]
    """File and number of each line that ran in the variant's own files."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls on the same path: a constant that follows the input's size counts by that, not by its value."""
        launches = tuple((k, tuple((c.name, c.follows or c.value) for c in cs)) for k, cs in self.launches)
        return tuple(sorted(self.lines)), launches

    @property
    def name(self) -> str:
        """Eight hexadecimal digits, the same for the same key in every process."""
        return hashlib.sha256(repr(self.key).encode()).hexdigest()[:8]


class Recorder:
    """Launches and lines since ``clear``."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self._files = {str(file) for file in files}
        self._launches: list[Launch] = []
        self._lines: set[tuple[str, int]] = set()

    @property
    def lines(self) -> frozenset[tuple[str, int]]:
        """File and number of each line that ran since ``clear``."""
        return frozenset(self._lines)

    def clear(self) -> None:
        """Forgets earlier calls."""
        self._launches, self._lines = [], set()

    def path(self, shape: tuple[int, int]) -> CallPath:
        """The path since ``clear`` of a call of this shape. A launch that repeats others counts once."""
        launches = dict.fromkeys(
            Launch(name, tuple(c._replace(follows=_followed(c, shape)) for c in constants))
            for name, constants in self._launches
        )
        return CallPath(tuple(launches), frozenset(self._lines))

    def note(self, kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Keeps one launch."""
        given = dict(zip(kernel.arg_names, arguments, strict=False)) | options
        wanted = _constants_of(kernel) | (set(options) - set(kernel.arg_names))
        constants = (LaunchConstant(name, v) for name, v in sorted(given.items()) if name in wanted and _is_plain(v))
        self._launches.append(Launch(kernel.fn.__name__, tuple(constants)))

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        """A trace function for ``sys.settrace``: notes the lines of the variant's own files."""
        file = frame.f_code.co_filename
        if file not in self._files:
            return None

        def on_line(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
            if event == "line":
                self._lines.add((file, frame.f_lineno))
            return on_line

        return on_line


@contextmanager
def launching_nothing(recorder: Recorder) -> Iterator[None]:
    """Gives each launch in the block to the recorder in place of the device, in the first configuration if it is tuned."""
    originals = [launcher.run for launcher in _LAUNCHERS]
    tuning = Autotuner.run

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **options: Any) -> None:  # noqa: ARG001
        recorder.note(kernel, arguments, options)

    def untuned(tuner: Any, *arguments: Any, **options: Any) -> Any:
        configs, tuner.configs = tuner.configs, tuner.configs[:1]
        try:
            return tuning(tuner, *arguments, **options)
        finally:
            tuner.configs = configs

    for launcher in _LAUNCHERS:
        launcher.run = run
    Autotuner.run = untuned
    try:
        yield
    finally:
        Autotuner.run = tuning
        for launcher, original in zip(_LAUNCHERS, originals, strict=True):
            launcher.run = original


@contextmanager
def tracing(recorder: Recorder) -> Iterator[None]:
    """Gives each line of the variant's files that this thread runs in the block to the recorder."""
    before = sys.gettrace()
    sys.settrace(recorder.trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _constants_of(kernel: Any) -> set[str]:
    annotations = getattr(kernel.fn, "__annotations__", {})
    return {name for name, kind in annotations.items() if "constexpr" in str(getattr(kind, "__name__", kind))}


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str)


_SIZES: dict[str, Callable[[int, int], int]] = {
    "next power of 2 of columns": lambda _rows, columns: int(triton.next_power_of_2(columns)),
    "columns": lambda _rows, columns: columns,
    "rows": lambda rows, _columns: rows,
}
"""Sizes of the input that constants follow."""


def _followed(constant: LaunchConstant, shape: tuple[int, int]) -> str | None:
    """The size that a constant equals. Numbers of warps and stages are small, and equal one by chance."""
    if constant.name.startswith("num_") or not isinstance(constant.value, int):
        return None
    return next((name for name, size in _SIZES.items() if size(*shape) == constant.value), None)
