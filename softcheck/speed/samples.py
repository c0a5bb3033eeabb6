"""What one measurement of speed hands over: the seconds of every round, and what must be known to trust them. No torch."""

from typing import Literal

import msgspec

Method = Literal["launch", "graph"]
"""How a call was timed: launched from the host, or replayed from a CUDA graph of several calls."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one shape. Seconds are per call, one figure per round, rounds in order."""

    name: str
    seconds: tuple[float, ...] = ()
    launch_seconds: tuple[float, ...] = ()
    """Of a plain launch on an idle device, where ``seconds`` are those of a graph: what a caller without a graph waits."""
    method: Method = "launch"
    calls_per_span: int = 1
    """Calls between two events; their span is divided by this."""
    reason: str | None = None
    """Why there are no figures."""
    notes: tuple[str, ...] = ()
    too_short: bool = False
    """Whether the clock is too coarse for so short a span: no figure of it is compared."""
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
    variants: tuple[Sampled, ...]
    copy: Sampled
    torch: Sampled
    cache: Literal["cold", "unverified"]
    """Whether the flush between calls was seen to work: there is no measurement with a warm cache."""
    stopped: Literal["precise", "budget", "rounds"]
    """Why measuring ended: every ratio to the copy was known within 1 %, time was up, or the most rounds were reached."""
    alarms: tuple[Alarm, ...] = ()
    wall_seconds: float = 0.0
    clock_mhz: int | None = None
    """Median clock of the multiprocessors over the rounds."""

    @property
    def rounds(self) -> int:
        """How many rounds were measured."""
        return len(self.copy.seconds)
