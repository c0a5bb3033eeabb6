"""The paths that a variant takes for many shapes, found by calls that launch nothing, in a forked process.

The fork sees the variant as it is and leaves no trace in it: whatever such a call caches is forgotten with the process.
A call there takes some 0.1 ms, so that thousands of shapes can be tried, and each boundary between two paths is found
by bisection. Inputs of up to 65536 elements are zeros, and the contents of others undefined: a path that depends on them
may not be found. CUDA can't be used in a fork, so that a GPU is pretended there: tensors lie in host memory and say that
they are on the GPU, of which torch tells what it told before the fork.
"""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from softcheck.calling.call import TORCH_DTYPES
from softcheck.variants.signatures import CallPath, Recorder, launching_nothing, tracing
from softcheck.variants.source import Source

Shape = tuple[int, int]
"""Rows and columns."""

_MOST_BYTES = 1 << 31

_HANGS = 10.0
"""Seconds without another path, after which a call hangs."""

_MANY = 1 << 15
"""A call on so many numbers that launches no kernel computes, and is the last on so many."""

_DEFINED = 1 << 16


def explore(
    function: Callable[..., Any],
    source: Source,
    dtype: str,
    device: torch.device,
    *,
    shapes: Sequence[Shape] = (),
    rows: Sequence[int] = (),
    columns: Sequence[int] = (),
    most_elements: int,
    most_calls: int,
    per_logit: int = 1,
) -> dict[Shape, CallPath]:
    """Maps shapes to the paths that calls on them take.

    These are the given shapes, each of the rows with each of the columns, and boundaries between these. Of two
    neighbouring sizes that take other paths, bisection finds the first size of the second path. A shape on which the
    function raises, or that has more than ``most_elements``, has no path. For each element a call takes and gives ``per_logit`` numbers. Ends after so many calls, or where one hangs, with what was
    found by then; shapes come in an order that spreads them over the grid. Empty where the platform has no fork.
    """
    if not hasattr(os, "fork"):
        return {}
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe(duplex=False)
    answers = _told_of_gpu()

    def run() -> None:
        try:
            if device.type == "cuda":
                _pretend(device, answers)
            recorder, kind = Recorder(source.files, source.branches, source.condition_lines), TORCH_DTYPES[dtype]
            most = min(most_elements, _MOST_BYTES // kind.itemsize)
            _Explorer(function, recorder, kind, most, per_logit, theirs).run(shapes, rows, columns, most_calls)
        finally:
            # The child runs no code of other threads, and ends without clean-up.
            os._exit(0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = forking.Process(target=run)
        child.start()
    theirs.close()
    try:
        return _received(ours)
    finally:
        child.kill()
        child.join()
        ours.close()


def _received(ours: Connection) -> dict[Shape, CallPath]:
    """Reads what the child sends until it ends or hangs."""
    found: dict[Shape, CallPath] = {}
    paths: list[CallPath] = []
    with suppress(EOFError):
        while ours.poll(_HANGS):
            shape, number, path = ours.recv()
            paths += [] if path is None else [CallPath(*path)]
            found[shape] = paths[number]
    return found


@dataclass
class _Explorer:
    """Calls the function in the child and writes each shape's path to the pipe."""

    function: Callable[..., Any]
    recorder: Recorder
    dtype: torch.dtype
    most: int
    """Elements of the largest call."""
    per_logit: int
    pipe: Connection
    numbers: dict[CallPath, int] = field(default_factory=dict)
    known: dict[Shape, CallPath | None] = field(default_factory=dict)

    def run(self, shapes: Sequence[Shape], rows: Sequence[int], columns: Sequence[int], most_calls: int) -> None:
        """Tries the shapes, then lines of the grid and the boundaries in each, in so many calls."""
        torch.set_num_threads(1)
        # As in calls that are judged, whose new memory is filled so. Nothing is filled here, where nothing is computed.
        torch.set_deterministic_debug_mode("warn")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the process ends
        of_rows = [[(count, n) for n in columns] for count in _spread(rows)]
        of_columns = [[(n, width) for n in rows] for width in _spread(columns)]
        lines = filter(None, chain.from_iterable(zip_longest(of_rows, of_columns)))
        with launching_nothing(self.recorder), tracing(self.recorder):
            for line in chain([[shape] for shape in shapes], lines):
                self._line(line, most_calls)

    def _line(self, shapes: Sequence[Shape], most_calls: int) -> None:
        """Tries shapes that differ in one size, ascending, and bisects between neighbours of other paths."""
        if len(self.known) < most_calls:
            tried = [shape for shape in shapes if self._path(shape) is not None]
            for low, high in pairwise(tried):
                self._bisect(low, high)

    def _bisect(self, low: Shape, high: Shape) -> None:
        first, last = self._path(low), self._path(high)
        while first and last and first.key != last.key and max(high[0] - low[0], high[1] - low[1]) > 1:
            middle = (low[0] + high[0]) // 2, (low[1] + high[1]) // 2
            path = self._path(middle)
            if path is not None and path.key == first.key:
                low, first = middle, path
            else:
                high, last = middle, path

    def _path(self, shape: Shape) -> CallPath | None:
        if shape not in self.known and shape[0] * shape[1] <= self.most:
            self.known[shape] = self._called(shape)
        return self.known.get(shape)

    def _called(self, shape: Shape) -> CallPath | None:
        make = torch.zeros if shape[0] * shape[1] <= _DEFINED else torch.empty
        x = make(shape, dtype=self.dtype, device="cpu")
        self.recorder.clear()
        try:
            self.function(x)
        except (Exception, SystemExit):  # noqa: BLE001 - whatever a variant raises here, real calls will tell
            return None
        path = self.recorder.path(shape)
        if shape[0] * shape[1] * self.per_logit >= _MANY and not path.launches:
            # It computes without a kernel that could be left out.
            self.most = min(self.most, shape[0] * shape[1])
        is_new = path not in self.numbers
        number = self.numbers.setdefault(path, len(self.numbers))
        self.pipe.send((shape, number, tuple(path) if is_new else None))
        return path


def _spread(sizes: Sequence[int]) -> list[int]:
    """The sizes in an order whose every beginning is spread over all: the ends, the middle, the middles of the halves."""
    places = sorted(range(len(sizes)), key=lambda place: (-((place | 1 << 16) & -(place | 1 << 16)), place))
    return [sizes[place] for place in places]


def _told_of_gpu() -> dict[str, Any]:
    """Answers of torch.cuda that host code asks for, by function name, to be asked for before the fork."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    return {
        "get_device_properties": torch.cuda.get_device_properties(),
        "get_device_capability": torch.cuda.get_device_capability(),
        "get_device_name": torch.cuda.get_device_name(),
        "current_stream": torch.cuda.current_stream(),
    }


def _pretend(device: torch.device, answers: dict[str, Any]) -> None:
    """Makes every tensor say that it is on this device from now on, and every request for the device one for the host."""
    torch.Tensor.is_cuda = property(lambda _tensor: True)  # type: ignore[assignment]
    torch.Tensor.device = property(lambda _tensor: device)  # type: ignore[assignment]
    told = {**answers, "current_device": 0, "device_count": 1, "is_available": True, "synchronize": None}
    for name, answer in {**told, **dict.fromkeys(("device", "device_of", "stream"), nullcontext())}.items():
        setattr(torch.cuda, name, _constant(answer))
    _OnHost().__enter__()  # type: ignore[no-untyped-call]


def _constant(answer: Any) -> Callable[..., Any]:
    return lambda *_arguments, **_options: answer


class _OnHost(TorchFunctionMode):
    """Makes functions that name a device use the host."""

    def __torch_function__(
        self, function: Any, _types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.cuda:
            return arguments[0]
        arguments = tuple(_host(argument) for argument in arguments)
        return function(*arguments, **{name: _host(value) for name, value in (options or {}).items()})


def _host(value: Any) -> Any:
    is_device = isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda"))
    return torch.device("cpu") if is_device else value
