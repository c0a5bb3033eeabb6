"""Calls at one shape after the other, until a budget is spent, with the promises that they break.

The budget counts calls, elements, interpreted programs and compiled kernels, so that the same calls are made on any machine, idle or
busy.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

import msgspec
import torch

from oracles.formats import Bits
from softcheck.calling import launches
from softcheck.calling.call import Returned
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.probes.base import Subject
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome
from softcheck.probes.predicate import Shape

Purse = Literal["needed", "first", "usual", "beside"]
"""The purse that pays a shape's calls: nothing, what the first shapes of regimes have beside everyone's, or what tells a wrong shape's class."""

_COMPILED = 30
"""Cost of a kernel that is compiled on a GPU."""
_ELEMENTS, _ELEMENTS_INTERPRETED = 2**19, 2**13
"""Elements that cost as much as a call or an interpreted program."""
_BESIDE = 150.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A shape to try. ``calls`` calls hold as many adversarial rows as there are, if one call holds fewer."""

    shape: Shape
    purse: Purse = "usual"
    tile: int = 0
    """Columns of a tile that a kernel may have at this width, if any are known."""
    calls: int = 1
    programs: float | None = None
    """Programs of a call for each of its rows, if that is known."""


class Walk:
    """Calls at one shape after the other until the budget is spent.

    ``inputs`` makes the matrices of a stop. ``beside`` gives lines of shapes, each ascending in one size, through the smallest wrong
    shape and the next right one: where one breaks a promise and its neighbour none, the boundary is bisected. An element costs ``weight`` times as much as one of softmax.
    """

    def __init__(
        self,
        subject: Subject,
        inputs: Callable[[Stop], Iterable[Bits]],
        budget: float,
        *,
        first: float = 0.0,
        beside: Callable[[Shape], Sequence[Sequence[Shape]]] = lambda _: (),
        function: Callable[[torch.Tensor], Any] | None = None,
        weight: float = 1.0,
    ) -> None:
        setting = subject.setting
        self._setting, self._inputs, self._lines = setting, inputs, beside
        self._weight = weight
        self._subject, self._function = subject, function
        self._left: dict[Purse, float] = {"needed": math.inf, "first": first, "usual": budget, "beside": _BESIDE}
        self._per_row = 0.0
        """Programs that an interpreted call had for each of its rows: of the largest call so far."""
        self._most_rows = 0
        self._kernels: Sequence[object] = ()
        self._fatal = self._is_cut = False
        self._skipped: str | None = None
        self._tried: dict[Shape, set[FindingKind]] = {}
        self._first: dict[FindingKind, tuple[Shape, Violation]] = {}

    def of(self, stops: Iterable[Stop]) -> Outcome:
        """Tries the stops in order. Those that would cost more than is left are left out."""
        seen: set[Shape] = set()
        with self._compiling() as self._kernels:
            for stop in stops:
                if self._fatal:
                    break
                if stop.shape not in seen:
                    seen.add(stop.shape)
                    self._make(stop)
            self._look_beside()
        failing = {
            kind: tuple(sorted((shape.rows, shape.columns) for shape, kinds in self._tried.items() if kind in kinds))
            for kind in FindingKind
            if kind in self._first
        }
        return Outcome(
            violations=tuple(violation for _, violation in self._first.values()),
            tried=tuple(sorted((shape.rows, shape.columns) for shape in self._tried)),
            failing=failing,
            fatal=self._fatal,
            skipped=self._skipped,
            is_cut=self._is_cut,
        )

    def _compiling(self) -> Any:
        """Collects the kernels that calls launch on a GPU, whenever they were compiled."""
        if not self._setting.on_gpu:
            return nullcontext(())
        # Imports Triton.
        from softcheck.toolchain.compile import launched

        return launched()

    def _make(self, stop: Stop) -> None:
        purse: Purse = stop.purse
        if purse == "first" and self._left["usual"] >= self._left["first"]:
            purse = "usual"
        programs = self._per_row if stop.programs is None else stop.programs
        if self._cost(stop.shape, 0 if self._setting.on_gpu else programs * stop.shape.rows) > self._left[purse]:
            self._is_cut |= purse != "beside"
            return
        for bits in self._inputs(stop):
            if self._fatal or self._left[purse] <= 0:
                break
            self._left[purse] -= self._call(stop.shape, bits)

    def _call(self, shape: Shape, bits: Bits) -> float:
        """Makes one call and returns what it has cost."""
        programs, kernels = launches.programs(), len(self._kernels)
        try:
            self._keep(shape, judged(self._subject, bits, self._function))
        except UninterpretableError as error:
            self._skipped = str(error)
        programs = launches.programs() - programs
        if programs and shape.rows >= self._most_rows:
            self._most_rows, self._per_row = shape.rows, programs / shape.rows
        return self._cost(shape, programs) + _COMPILED * (len(self._kernels) - kernels)

    def _cost(self, shape: Shape, programs: float) -> float:
        """Returns the cost of one call: one, and more for its elements and the programs that an interpreter runs."""
        setting = self._setting
        of_elements = shape.elements * self._weight / (_ELEMENTS if setting.on_gpu else _ELEMENTS_INTERPRETED)
        return (shape.rows if setting.has_row_calls else 1) * setting.cost_of_call + programs + of_elements

    def _keep(self, shape: Shape, returned: Returned) -> None:
        self._fatal |= returned.fatal
        kinds = self._tried.setdefault(shape, set())
        for violation in returned.violations:
            kinds.add(violation.kind)
            known = self._first.get(violation.kind)
            is_first = known is None or shape.elements < known[0].elements
            one = violation if known is None else merged(known[1], violation, first=is_first)
            self._first[violation.kind] = (shape if is_first or known is None else known[0], one)

    def _look_beside(self) -> None:
        """Tries the lines through the smallest wrong shape and the right one that is most like it."""
        wrong = [shape for shape, kinds in self._tried.items() if kinds & WRONG_KINDS]
        if not wrong:
            return
        least = min(wrong, key=lambda shape: (shape.elements, shape))
        right = [shape for shape in self._tried if shape not in wrong and shape.elements]
        near = sorted(
            right, key=lambda shape: (abs(shape.rows - least.rows) + abs(shape.columns - least.columns), shape)
        )
        lines = chain.from_iterable(map(self._lines, (least, *near[:1])))
        for low, high in chain.from_iterable(map(pairwise, lines)):
            self._bisect(low, high)

    def _bisect(self, low: Shape, high: Shape) -> None:
        while (is_wrong := self._is_wrong(low)) is not None and self._is_wrong(high) is not is_wrong:
            middle = Shape((low.rows + high.rows) // 2, (low.columns + high.columns) // 2)
            if middle == low or (of_middle := self._is_wrong(middle)) is None:
                break
            low, high = (middle, high) if of_middle is is_wrong else (low, middle)

    def _is_wrong(self, shape: Shape) -> bool | None:
        """True for a shape that breaks a promise; None for one that was not tried."""
        if shape not in self._tried and not self._fatal:
            self._make(Stop(shape, "beside"))
        return bool(self._tried[shape] & WRONG_KINDS) if shape in self._tried else None


def merged(known: Violation, violation: Violation, *, first: bool) -> Violation:
    """Merges the violations of two shapes: the witness of the smaller one, the larger share, the sum of the counts."""
    shares = [v.share for v in (known, violation) if v.share is not None]
    witness = violation if first else known
    is_one_refusal = known.refusal and violation.refusal and known.refusal.kind == violation.refusal.kind
    return msgspec.structs.replace(
        witness,
        share=max(shares, default=None),
        count=known.count + violation.count,
        refusal=witness.refusal if is_one_refusal else None,
    )
