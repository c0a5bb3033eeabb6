"""The path that a call takes: its kernels, their constants, options and grids, its operations of torch, and its lines.

Two calls with the same path are in the same regime. Numbers that follow the input's size, such as a block that is the
next power of two of the columns, or a grid of one program for each row, are written as such, so that they do not tell
paths apart. Shared memory follows from a kernel, its constants and the dtype.
"""

import hashlib
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from softcheck.calling.call import Dispatched
from softcheck.toolchain.interpreter import wrapped
from softcheck.variants.coverage import Arc, Line


class LaunchNumber(NamedTuple):
    """A compile-time constant or an option of a launch, or the number of programs in one dimension of its grid."""

    name: str
    """Empty for a dimension of the grid."""
    value: int | float | str | None
    """None for several numbers: of a rule, or of calls that follow no size."""
    rule: str = ""
    """The rule by which it follows a size of the input, such as "columns" or "rows / BLOCK"; none for other values."""

    def __str__(self) -> str:
        said = self.rule or ("of its own" if self.value is None else str(self.value))
        return f"{self.name}={said}" if self.name else said


class Launch(NamedTuple):
    """One launch of a kernel."""

    kernel: str
    numbers: tuple[LaunchNumber, ...]
    """Constants and options, and behind them the dimensions of the grid."""

    @property
    def grid(self) -> list[LaunchNumber]:
        """The dimensions of the grid."""
        return [number for number in self.numbers if not number.name]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for launches that differ only in numbers that follow the input's size."""
        return self.kernel, tuple((number.name, number.rule or number.value) for number in self.numbers)

    def __str__(self) -> str:
        words = [str(number) for number in self.numbers if number.name]
        grid = [f"grid={' x '.join(map(str, self.grid))}"] if self.grid else []
        return f"{self.kernel}({', '.join(words + grid)})"


class CallPath(NamedTuple):
    """The path of one call."""

    launches: tuple[Launch, ...]
    lines: frozenset[Line]
    """File and number of each line that ran in the variant's own files."""
    branches: frozenset[tuple[str, int, int]] = frozenset()
    """File, line and place in it of each instruction that ran in lines that hold both sides of a condition."""
    operations: tuple[str, ...] = ()
    """Operations of torch, each once, in the order in which they came."""
    arcs: frozenset[Arc] = frozenset()
    """Ways on from conditions. They follow from the lines, or from how often a loop went round."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls on the same path: a number that follows the input's size counts by that, not by its value."""
        launches = tuple(launch.key for launch in self.launches)
        return tuple(sorted(self.lines)), tuple(sorted(self.branches)), launches, self.operations

    @property
    def name(self) -> str:
        """Eight hexadecimal digits, the same for the same key in every process."""
        return hashlib.sha256(repr(self.key).encode()).hexdigest()[:8]


class Recorder:
    """Launches and lines since ``clear``."""

    def __init__(
        self, files: tuple[Path, ...], branching: Collection[Line] = (), conditions: Collection[Line] = ()
    ) -> None:
        """``branching`` are lines of which single instructions are noted, ``conditions`` those of which the next line is."""
        self._files = {str(file) for file in files}
        self._branching = frozenset(branching)
        self._conditions = frozenset(conditions)
        self.dispatched = Dispatched()
        """Notes operations of torch."""
        self.clear()

    @property
    def lines(self) -> frozenset[Line]:
        """File and number of each line that ran since ``clear``."""
        return frozenset(self._lines)

    @property
    def arcs(self) -> frozenset[Arc]:
        """Ways on from conditions since ``clear``."""
        return frozenset(self._arcs)

    def clear(self) -> None:
        """Forgets earlier calls."""
        self._launches: list[Launch] = []
        self._lines: set[Line] = set()
        self._arcs: set[Arc] = set()
        self._branches: set[tuple[str, int, int]] = set()
        self.dispatched.operations.clear()

    def path(self, shape: tuple[int, int]) -> CallPath:
        """The path since ``clear`` of a call of this shape. A launch that repeats others counts once."""
        launches = dict.fromkeys(
            launch._replace(
                numbers=tuple(
                    forms[0]._replace(value=number.value)
                    for number, forms in zip(launch.numbers, rules_of(launch, shape), strict=True)
                )
            )
            for launch in self._launches
        )
        branches, operations = frozenset(self._branches), tuple(self.dispatched.operations)
        return CallPath(tuple(launches), self.lines, branches, operations, self.arcs)

    def note(self, kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any], grid: Any) -> None:
        """Keeps one launch."""
        given = dict(zip(kernel.arg_names, arguments, strict=False)) | options
        annotations = getattr(kernel.fn, "__annotations__", {}).items()
        wanted = {name for name, kind in annotations if "constexpr" in str(getattr(kind, "__name__", kind))}
        wanted |= set(options) - set(kernel.arg_names)
        plain = {name: value for name, value in sorted(given.items()) if isinstance(value, int | float | str)}
        constants = (LaunchNumber(name, value) for name, value in plain.items() if name in wanted)
        sizes = grid(given) if callable(grid) else grid
        sizes = sizes if isinstance(sizes, tuple | list) else (sizes,)
        dimensions = (LaunchNumber("", int(size)) for size in sizes)
        self._launches.append(Launch(kernel.fn.__name__, (*constants, *dimensions)))

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        """A trace function for ``sys.settrace``: notes the lines of the variant's own files."""
        file = frame.f_code.co_filename
        if file not in self._files:
            return None
        before = file, 0

        def on_line(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
            nonlocal before
            if event in {"line", "return"}:
                now = file, frame.f_lineno if event == "line" else 0
                if before in self._conditions:
                    self._arcs.add((*before, now[1]))
                before = now
                if event == "line":
                    self._lines.add(now)
            elif event == "exception":
                # What follows is a handler, wherever the exception came from.
                before = file, 0
            elif event == "opcode" and (file, frame.f_lineno) in self._branching:
                self._branches.add((file, frame.f_lineno, frame.f_lasti))
            return on_line

        frame.f_trace_opcodes = bool(self._branching)
        return on_line


@contextmanager
def launching_nothing(recorder: Recorder) -> Iterator[None]:
    """Gives each launch in the block to the recorder in place of the device, in the first configuration if it is tuned."""

    def run(_: Any, kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **options: Any) -> None:  # noqa: ARG001
        recorder.note(kernel, arguments, options, grid)

    def untuned(tuning: Any, tuner: Any, *arguments: Any, **options: Any) -> Any:
        configs, tuner.configs = tuner.configs, tuner.configs[:1]
        try:
            return tuning(tuner, *arguments, **options)
        finally:
            tuner.configs = configs

    with (
        wrapped({(JITFunction, "run"): run, (InterpretedFunction, "run"): run, (Autotuner, "run"): untuned}),
        recorder.dispatched,
    ):
        yield


@contextmanager
def tracing(recorder: Recorder) -> Iterator[None]:
    """Gives each line of the variant's files that this thread runs in the block to the recorder."""
    before = sys.gettrace()
    sys.settrace(recorder.trace)
    try:
        yield
    finally:
        sys.settrace(before)


_SIZES: dict[str, Callable[[int, int], int]] = {
    "next power of 2 of columns": lambda _rows, columns: int(triton.next_power_of_2(columns)),
    "columns": lambda _rows, columns: columns,
    "rows": lambda rows, _columns: rows,
}
"""Sizes of the input that constants follow."""


_PROGRAMS: dict[str, Callable[[int, int, int], int]] = {
    "rows / ": lambda rows, _columns, per: -(-rows // per),
    "rows // ": lambda rows, _columns, per: rows // per,
    "columns / ": lambda _rows, columns, per: -(-columns // per),
    "columns // ": lambda _rows, columns, per: columns // per,
    "elements / ": lambda rows, columns, per: -(-rows * columns // per),
    "rows x columns / ": lambda rows, columns, per: rows * -(-columns // per),
}
"""Rules by which a number of programs follows the input's size: one for each so many rows, columns or elements, rounded
up or down, or for each so many columns of each row."""

_MOST_PER = 1024


def rules_of(launch: Launch, shape: tuple[int, int]) -> list[list[LaunchNumber]]:
    """Returns the forms of each number of a launch for this shape: by rules, the simplest first, and the number itself last."""
    pers: dict[str | int, int] = {
        1: 1,
        **{n.name: n.value for n in launch.numbers if isinstance(n.value, int) and n.value > 1},
    }
    pers |= {2**k: 2**k for k in range(1, _MOST_PER.bit_length())}
    found = []
    for number in launch.numbers:
        rules: Iterator[str] = iter(())
        if not number.name:
            rules = (
                of.rstrip(" /") if name == 1 else f"{of}{name}"
                for name, per in pers.items()
                for of, rule in _PROGRAMS.items()
                if rule(*shape, per) == number.value
            )
        elif isinstance(number.value, int) and not number.name.startswith("num_"):
            # Numbers of warps and stages are small, and equal a size by chance.
            rules = (name for name, size in _SIZES.items() if size(*shape) == number.value)
        found.append([*(LaunchNumber(number.name, None, rule) for rule in rules), number._replace(rule="")])
    return found
