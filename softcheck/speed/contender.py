"""What is timed: variants, and beside them a copy of their input and torch's own on the same operands."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch

from softcheck.operations.masks import masked
from softcheck.operations.operation import Operation
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


class Yardsticks:
    """The copy and torch's own, for inputs of one shape whose calls take operands of these names beside the matrix."""

    def __init__(self, rotation: Rotation, operation: Operation, names: frozenset[str], clock: CudaClock) -> None:
        self._rotation = rotation
        self._operation = operation
        self._names = names
        self._clock = clock

    def copied(self, x: torch.Tensor) -> torch.Tensor:
        """Returns a copy of the input, or of queries, keys and values where a head has many more of them than of logits."""
        if self._operation.flops is None or not self._names:
            return x.clone()
        parts = [operand.view(-1).view(torch.uint8) for operand in self._rotation.operands(x).values()]
        found = torch.empty(sum(map(len, parts)), dtype=torch.uint8, device=x.device)
        end = 0
        for part in parts:
            found[end : end + len(part)] = part
            end += len(part)
        return found

    def by_torch(self, x: torch.Tensor) -> tuple[Function, list[str]]:
        """Returns torch's own on the same operands, by the quickest of its ways on this input, whose name is noted.

        Raises RuntimeError if none of them runs.
        """
        computed = self._operation
        if not self._names:
            return computed.yardstick, []
        by_torch = computed.by_torch or (lambda given: computed.yardstick(masked(given)))
        notes: list[str] = []
        if computed.ways is not None:
            by_torch, name = self._quickest(computed.ways(), x)
            notes = [f"by {name}"]
        return (lambda given: by_torch({"x": given, **self._rotation.operands(given)})), notes

    def _quickest(
        self, ways: Mapping[str, Callable[[Mapping[str, torch.Tensor]], torch.Tensor]], x: torch.Tensor
    ) -> tuple[Callable[[Mapping[str, torch.Tensor]], torch.Tensor], str]:
        """The way that takes least, of those that run on these operands. Raises RuntimeError if none does."""
        seconds = {}
        given = {"x": x, **self._rotation.operands(x)}
        for name, way in ways.items():
            with contextlib.suppress(RuntimeError):
                times = estimate(self._clock, partial(way, given), most=_TRIES, settled=statistics.settled)
                seconds[name] = min(times)
        if not seconds:
            raise RuntimeError(f"none of torch's ways runs here: {', '.join(ways)}")
        quickest = min(seconds, key=lambda name: seconds[name])
        return ways[quickest], quickest
