"""Raw results of a speed measurement: the seconds of every round, and the facts needed to trust them. No torch."""

from typing import Literal

import msgspec

Method = Literal["launch", "graph"]
"""The way a call was timed: launched from the host, or replayed from a CUDA graph of several calls."""


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
