"""The paths that a variant takes for many shapes, found by calls that launch nothing, in a forked process.

The fork sees the variant as it is and leaves no trace in it: whatever such a call caches is forgotten with the process.
A call there takes some 0.1 ms, so that thousands of shapes can be tried, and each boundary between two paths is found
by bisection. The input's contents are undefined: a path that depends on them may not be found. On a GPU the fork
pretends one to the variant, since CUDA can't be used in a fork.
"""

import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from softcheck.calling.call import TORCH_DTYPES
from softcheck.variants import pretended_gpu
from softcheck.variants.signatures import CallPath, Recorder, launching_nothing, tracing
from softcheck.variants.source import Source

Shape = tuple[int, int]
"""Rows and columns."""

_MOST_BYTES = 1 << 31

_MANY, _SLOW = 1 << 17, 0.005
"""A call on so many elements that takes so many seconds is the last on so many."""


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
    seconds: float,
) -> dict[Shape, CallPath]:
    """Maps shapes to the paths that calls on them take.

    These are the given shapes, each of the rows with each of the columns, and boundaries between these. Of two neighbouring sizes that take other paths, bisection finds the first size of the second path. A shape on
    which the function raises, or that has more than ``most_elements``, has no path. Ends after ``seconds`` with what
    was found by then. Empty where the platform has no fork.
    """
    if not hasattr(os, "fork"):
        return {}
    ours, theirs = os.pipe()
    answers = pretended_gpu.known()
    with warnings.catch_warnings():
        # The child runs no code of other threads, and ends without clean-up.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            if device.type == "cuda":
                pretended_gpu.pretend(device, answers)
            _Explorer(function, source, dtype, most_elements, theirs).run(shapes, rows, columns)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        return _received(ours, time.monotonic() + seconds)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _received(pipe: int, deadline: float) -> dict[Shape, CallPath]:
    """Reads what the child sends until it ends or the time is over. A record that is cut off is dropped."""
    data = b""
    while (left := deadline - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            break
        data += part
    found: dict[Shape, CallPath] = {}
    paths: list[CallPath] = []
    for line in data.split(b"\n")[:-1]:
        record = pickle.loads(bytes.fromhex(line.decode()))  # noqa: S301 - written by our own child
        if isinstance(record, CallPath):
            paths.append(record)
        else:
            shape, number = record
            found[shape] = paths[number]
    return found


class _Explorer:
    """Calls the function in the child and writes each shape's path to the pipe."""

    def __init__(self, function: Callable[..., Any], source: Source, dtype: str, most_elements: int, pipe: int) -> None:
        self._function = function
        self._dtype = TORCH_DTYPES[dtype]
        self._most = min(most_elements, _MOST_BYTES // self._dtype.itemsize)
        self._pipe = pipe
        self._recorder = Recorder(source.files)
        self._numbers: dict[CallPath, int] = {}
        self._known: dict[Shape, CallPath | None] = {}

    def run(self, shapes: Sequence[Shape], rows: Sequence[int], columns: Sequence[int]) -> None:
        """Tries the shapes, then the lines of the grid and the boundaries in each."""
        torch.set_num_threads(1)
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the process ends
        with launching_nothing(self._recorder), tracing(self._recorder):
            for shape in shapes:
                self._path(shape)
            for count in rows:
                self._line([(count, n) for n in columns])
            for width in columns:
                self._line([(n, width) for n in rows])

    def _line(self, shapes: Iterable[Shape]) -> None:
        """Tries shapes that differ in one size, ascending, and bisects between neighbours of other paths."""
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
        if shape not in self._known:
            self._known[shape] = None if shape[0] * shape[1] > self._most else self._called(shape)
        return self._known[shape]

    def _called(self, shape: Shape) -> CallPath | None:
        x = torch.empty(shape, dtype=self._dtype, device="cpu")
        self._recorder.clear()
        begun = time.process_time()
        try:
            self._function(x)
        except Exception:  # noqa: BLE001 - whatever a variant raises here, real calls will tell
            return None
        elements = shape[0] * shape[1]
        if elements >= _MANY and time.process_time() - begun > _SLOW:
            # It computes without a kernel that could be left out.
            self._most = min(self._most, elements)
        path = self._recorder.path(shape)
        if path not in self._numbers:
            self._numbers[path] = len(self._numbers)
            self._send(path)
        self._send((shape, self._numbers[path]))
        return path

    def _send(self, record: Any) -> None:
        os.write(self._pipe, pickle.dumps(record).hex().encode() + b"\n")
