"""One function that is timed, and what was measured of it."""

from dataclasses import dataclass, field

import torch

from softcheck.speed.clock import Captured
from softcheck.speed.samples import Sampled
from softcheck.speed.vetting import Function, Vetted


@dataclass(slots=True)
class Contender:
    """One function to time, and its measurements so far."""

    name: str
    function: Function
    vetted: Vetted | None
    """None for the yardsticks, whose output nobody doubts."""
    graph: Captured | None = None
    seconds: list[float] = field(default_factory=list)
    launch_seconds: list[float] = field(default_factory=list)
    wrong_rows: torch.Tensor | None = None
    calls: int = 1
    failed: str | None = None
    too_short: bool = False
    notes: list[str] = field(default_factory=list)

    def sampled(self) -> Sampled:
        """Returns the measurements, or the reason why there are none."""
        return Sampled(
            name=self.name,
            seconds=() if self.failed else tuple(self.seconds),
            launch_seconds=() if self.failed else tuple(self.launch_seconds),
            method="launch" if self.graph is None else "graph",
            calls_per_span=self.calls,
            reason=self.failed,
            notes=tuple(self.notes),
            too_short=self.too_short,
            max_ulp=self.vetted.max_ulp if self.vetted else None,
        )
