"""Speed in results: one shape with all its contenders, and means over shapes. JSON is drawn from these types."""

from typing import Literal

import msgspec

from softcheck.speed.samples import Alarm, Method
from softcheck.speed.statistics import Interval, Word

TORCH = "torch"
"""The name of torch's own variant of softmax, beside which others are timed."""


class SpeedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One variant on one shape. A figure that was not measured is null, never 0."""

    variant: str
    seconds: Interval | None = None
    """Seconds of one call whose input is not in the cache. The launch itself is hidden or, in a graph, absent."""
    launch_seconds: Interval | None = None
    """Seconds of one plain launch on an idle device, if ``seconds`` are those of a graph."""
    method: Method = "launch"
    gb_per_s: float | None = None
    """Rate if each element of each operand is read or written once, whatever the algorithm moves; from the median."""
    tflop_per_s: float | None = None
    """Rate of the floating-point operations that the operation counts; null where only bytes count."""
    copy_share: Interval | None = None
    """The device copy's seconds over the variant's, formed within rounds."""
    times_faster: Interval | None = None
    """The reference's seconds over the variant's, formed within rounds."""
    word: Word | None = None
    """The verdict of ``times_faster``; null for the reference itself."""
    traffic_gb_per_s: float | None = None
    """Traffic of the declared algorithm, caches not counted."""
    roofline_share: float | None = None
    """The traffic over a device copy's in the same time; above 1 a cache served some of it."""
    max_ulp: float | None = None
    """Largest ULP error of the judged rows of the timed input: a lower bound."""
    reason: str | None = None
    """The reason why there are no figures."""
    notes: tuple[str, ...] = ()


class ShapeSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """All variants on one shape, measured in the same rounds."""

    dtype: str
    rows: int
    columns: int
    reference: str
    operation: str = "softmax"
    operands: tuple[str, ...] = ()
    """Names of what the calls take beside the matrix; torch's own takes the same."""
    copy_seconds: Interval
    copy_gb_per_s: float
    torch_seconds: Interval
    torch_gb_per_s: float | None = None
    torch_tflop_per_s: float | None = None
    torch_way: str | None = None
    """The way that torch's own took, as its quickest backend; null where it has one."""
    variants: tuple[SpeedFigures, ...]
    rounds: int
    stopped: Literal["precise", "budget", "rounds"]
    cache: Literal["cold", "unverified"]
    alarms: tuple[Alarm, ...] = ()
    clock_mhz: int | None = None
    wall_seconds: float = 0.0


class SpeedMean(msgspec.Struct, frozen=True, kw_only=True):
    """Geometric means of one variant in one dtype over the shapes where it was measured."""

    variant: str
    dtype: str
    shapes: int
    left_out: int
    """Shapes without a figure, which the means say nothing of."""
    times_faster: Interval | None
    copy_share: Interval | None
