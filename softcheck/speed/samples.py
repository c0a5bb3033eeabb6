"""The shapes that are timed, and raw results: the seconds of every round, and the facts needed to trust them. No torch."""

import re
from typing import Literal

import msgspec

from softcheck.errors import UsageError
from softcheck.speed.statistics import PRECISE

Method = Literal["launch", "graph"]
"""The way a call was timed: launched from the host, or replayed from a CUDA graph of several calls."""


class TimingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The shape, duration and order (by seed) of a timing."""

    dtype: str
    rows: int
    columns: int
    seed: int
    seconds: float = 1.0
    """Budget of the rounds, warm-up and compilation not counted."""
    within: float = PRECISE
    """Measuring ends early once every ratio to the copy is known within this share."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one shape. Seconds are per call, one figure per round, rounds in order."""

    name: str
    seconds: tuple[float, ...] = ()
    launch_seconds: tuple[float, ...] = ()
    """Seconds of a plain launch on an idle device, if ``seconds`` are those of a graph: a caller without a graph waits
    so long."""
    method: Method = "launch"
    calls_per_span: int = 1
    """Calls between two events; their span is divided by this."""
    reason: str | None = None
    """The reason why there are no figures."""
    notes: tuple[str, ...] = ()
    too_short: bool = False
    """True if the clock is too coarse for so short a span. No figure of such a sample is compared."""
    max_ulp: float | None = None
    """Largest ULP error of the judged rows of the timed input, a lower bound."""


class Alarm(msgspec.Struct, frozen=True):
    """Something that makes the figures doubtful, and what to do about it."""

    kind: Literal["throttled", "clock_changed", "other_processes", "not_cold", "unwatched"]
    message: str


class ShapeSamples(msgspec.Struct, frozen=True, kw_only=True):
    """All contenders on one shape, measured in the same rounds."""

    dtype: str
    rows: int
    columns: int
    operands: tuple[str, ...] = ()
    """Names of what the calls take beside the matrix."""
    variants: tuple[Sampled, ...]
    copy: Sampled
    torch: Sampled
    cache: Literal["cold", "unverified"]
    """State of the cache: "cold" if the flush between calls was seen to work. There is no measurement with a warm
    cache."""
    stopped: Literal["precise", "budget", "rounds"]
    """The reason why measuring ended: every ratio to the copy was known within 1 %, time was up, or the most rounds
    were reached."""
    alarms: tuple[Alarm, ...] = ()
    wall_seconds: float = 0.0
    clock_mhz: int | None = None
    """Median clock of the multiprocessors over the rounds."""

    @property
    def rounds(self) -> int:
        """Number of measured rounds."""
        return len(self.copy.seconds)


Shape = tuple[int, int]

DEFAULT: Shape = (8192, 8192)
"""Several times the L2 of any current GPU in every dtype."""

SWEEPS: dict[str, tuple[Shape, ...]] = {
    "columns": tuple((4096, columns) for columns in range(256, 12673, 128)),
    "batch": tuple((2**k, 4096) for k in range(4, 17)),
    "vocabulary": tuple((2048, c) for c in (1000, 4096, 8192, 16384, 32000, 50257, 65536, 100352, 129280)),
    "heads": ((64, 1024), (64, 4096)),
    "small-batch": tuple((rows, columns) for columns in (1024, 32000, 129280) for rows in (1, 4, 16, 64)),
}
"""Rows and columns by sweep.

``columns`` is the tutorial's sweep. Vocabularies are sizes of language models, padded and not.
``heads`` are batch times heads and the keys of each, for attention.
"""

_SHAPE = re.compile(r"(\d{1,9})\s*[x\N{MULTIPLICATION SIGN}]\s*(\d{1,9})", re.ASCII)


def parse(text: str) -> tuple[Shape, ...]:
    """Shapes from ``4096x1024,1823x781``; raises UsageError for anything else, and for a size of 0."""
    shapes = []
    for part in text.split(","):
        match = _SHAPE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part.strip()!r} is no shape; expected ROWSxCOLUMNS, such as 4096x1024")
        rows, columns = int(match[1]), int(match[2])
        if not rows or not columns:
            raise UsageError(f"{part.strip()!r} has no elements; expected at least one row and one column")
        if rows * columns > 2**32:
            raise UsageError(f"{part.strip()!r} has {rows * columns:,} elements; expected at most {2**32:,}")
        shapes.append((rows, columns))
    return tuple(dict.fromkeys(shapes))
