"""Functions that are timed: variants, and beside them a copy of their input and torch's own on the same operands."""

import contextlib
from dataclasses import dataclass, field
from functools import partial

import torch

from softcheck.operations.masks import masked
from softcheck.speed import statistics
from softcheck.speed.clock import Captured, CudaClock, estimate
from softcheck.speed.inputs import Rotation
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


_TRIES = 8
"""Most calls of each of torch's ways before the quickest is chosen."""


def copied(rotation: Rotation, x: torch.Tensor) -> torch.Tensor:
    """Returns a copy of the input, or of queries, keys and values where a head has many more of them than of logits."""
    parts = [operand.view(-1).view(torch.uint8) for operand in rotation.operands(x).values()]
    if rotation.operation.flops is None or not parts:
        return x.clone()
    found = torch.empty(sum(map(len, parts)), dtype=torch.uint8, device=x.device)
    for into, part in zip(torch.split(found, list(map(len, parts))), parts, strict=True):
        into.copy_(part)
    return found


def by_torch(rotation: Rotation, x: torch.Tensor, clock: CudaClock) -> tuple[Function, list[str]]:
    """Returns torch's own on the same operands, by the quickest of its ways on this input, whose name is noted.

    Raises RuntimeError if none of them runs.
    """
    computed = rotation.operation
    if not rotation.operands(x):
        return computed.yardstick, []
    way, notes = computed.by_torch or (lambda given: computed.yardstick(masked(given))), list[str]()
    if computed.ways is not None:
        ways, seconds = computed.ways(), dict[str, float]()
        given = {"x": x, **rotation.operands(x)}
        for name in ways:
            with contextlib.suppress(RuntimeError):
                call = partial(ways[name], given)
                seconds[name] = min(estimate(clock, call, most=_TRIES, settled=statistics.settled))
        if not seconds:
            raise RuntimeError(f"none of torch's ways runs here: {', '.join(ways)}")
        quickest = min(seconds, key=lambda name: seconds[name])
        way, notes = ways[quickest], [f"by {quickest}"]
    return (lambda given: way({"x": given, **rotation.operands(given)})), notes
