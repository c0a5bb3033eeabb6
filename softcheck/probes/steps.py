"""Steps of a history of calls, and the plan that puts every circumstance of a call before and after every other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracles.formats import FORMATS, Bits, encode
from softcheck.cases.case import PACKED, Layout
from softcheck.probes.base import Setting
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.layouts import strided_layouts

BESIDE = ("collect", "one-dimensional", "integers", "undeclared-dtype")
"""Acts beside ordinary calls. Whatever they return or raise is nobody's fault; they must leave no mark."""

_WORDS = {
    "collect": "gc.collect() and torch.cuda.empty_cache()",
    "one-dimensional": "softmax(one dimension), whatever it gives",
    "integers": "softmax(int64), whatever it gives",
    "undeclared-dtype": "softmax(float64, which is not declared), whatever it gives",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a history: a call in its circumstances, or an act beside calls."""

    act: str = "call"
    """"call", or one of ``BESIDE``."""
    rows: int
    columns: int
    dtype: str
    layout: str = "packed"
    contents: str = "ordinary"
    memory: str = "new"
    """"new"; "same": the tensor of the last call of this shape, dtype and layout, rewritten; "freed": as new, after that
    tensor was freed."""
    failing: int = 0
    """Number of the allocation at which a first attempt at this call runs out of memory; 0 for no such attempt."""
    mode: str = ""
    """One of ``softcheck.probes.modes``; empty for none."""
    seed: int = 0

    def __str__(self) -> str:
        if self.act != "call":
            return _WORDS[self.act]
        told = [f"{self.dtype} [{self.rows}, {self.columns}]"]
        told += [words for words in (self.layout, self.contents) if words not in {"packed", "ordinary"}]
        told += {"same": ["the same tensor with new values"], "freed": ["where a freed tensor lay"]}.get(
            self.memory, []
        )
        told += [f"at a second attempt, since allocation {self.failing} of the first one failed"] * bool(self.failing)
        return f"softmax({', '.join(told)}){f' with {self.mode}' if self.mode else ''}"

    @property
    def alone(self) -> "Step":
        """The same values in the same layout, in fresh memory and in no special mode."""
        return replace(self, memory="new", mode="", failing=0)

    def simpler(self, base: "Step") -> list["Step"]:
        """The step with one property less, each of ``base`` or of an ordinary call."""
        found = [
            replace(self, mode=""),
            replace(self, failing=0),
            replace(self, memory="new"),
            replace(self, layout="packed"),
            replace(self, contents="ordinary"),
            replace(self, dtype=base.dtype),
            replace(self, rows=base.rows, columns=base.columns),
        ]
        return [step for step in found if step != self]

    def placing(self) -> Layout:
        """Strides and offset of the input."""
        unusual = strided_layouts(self.rows, self.columns)
        return {"packed": PACKED, "offset": Layout(offset=1), **unusual}[self.layout]

    def bits(self) -> Bits:
        """Bit patterns of the input, [rows, columns]; no two steps of a plan have equal rows."""
        fmt = FORMATS[self.dtype]
        bits = ordinary_rows(self.rows, self.columns, fmt, self.seed)
        if bits.size:
            special = {"masked-row": -np.inf, "nan": np.nan, "infinity": np.inf, "peak": 3e4}.get(self.contents)
            first = encode(np.array([np.nan if special is None else special]), fmt)[0]
            if self.contents == "masked-row":
                bits[0] = first
            elif special is not None:
                bits[0, -1] = first
            if self.layout == "expanded-rows":
                bits[:] = bits[0]
        return bits


Circumstance = Callable[[int], dict[str, Any]]
"""Returns the fields that a step has in a circumstance. The argument counts its occurrences from 0."""


def circumstances(setting: Setting, base: Step, modes: Sequence[Sequence[str]]) -> list[Circumstance]:
    """Returns circumstances of a call: sizes, dtypes, layouts, contents, memory, modes, and acts beside calls.

    Modes of one group take turns in one circumstance.
    """
    rows, columns = base.rows, base.columns
    declared = setting.declaration
    others = [dtype for dtype in declared.dtypes if dtype != base.dtype]
    layouts = ["offset"]
    if "strided" in declared.layouts:
        layouts += ["transposed", "row-step", "every-second-column", "expanded-rows"]
    beside = [act for act in BESIDE if act != "undeclared-dtype" or "float64" not in declared.dtypes]
    wider = [n for n in ((1100, 300, 8193) if setting.on_gpu else (1100, 300)) if setting.takes(n) and n > columns]
    found = [
        _cycle("rows", (3 * rows + 1, 1)),
        _cycle("columns", (columns // 3, 1, columns - 1)),
        lambda n: {"rows": 0} if n % 2 else {"columns": 0},
        _cycle("layout", layouts),
        _cycle("layout", layouts[1:] or layouts),
        _cycle("contents", ("nan", "masked-row", "infinity", "peak")),
        lambda _: {"memory": "same"},
        lambda _: {"memory": "freed"},
        _cycle("act", beside),
        # A width of its own each time: what is kept for a width is made in the attempt that fails.
        lambda n: {"failing": 1 + n % 3, "columns": max(columns - 2 - 2 * n, 1)},
        lambda _: {},
    ]
    found += [_cycle("columns", wider)] if wider else []
    found += [_cycle("dtype", others)] if others else []
    return found + [_cycle("mode", group) for group in modes]


def plan(base: Step, found: Sequence[Circumstance], seed: int) -> list[list[Step]]:
    """Returns histories, those first that show most for their length.

    The first two put every circumstance once before and once after every other, in a random order and in its reverse.
    The third puts two or three circumstances into each call. Each other history begins with a circumstance of its own,
    and goes to each later one and back, so that in all of them every circumstance comes right after every other.
    """
    generator = np.random.default_rng(seed)
    order = [int(place) for place in generator.permutation(len(found))]
    counts = [0] * len(found)
    made = 0

    def step(*places: int) -> Step:
        nonlocal made
        made += 1
        fields: dict[str, Any] = {}
        for place in places:
            fields |= found[place](counts[place])
            counts[place] += 1
        return replace(base, seed=(seed + made) % 2**32, **fields)

    mixed = [generator.choice(len(found), size=2 + number % 2, replace=False) for number in range(2 * len(found))]
    histories = [
        [step(place) for place in order],
        [step(place) for place in reversed(order)],
        [step(*(int(place) for place in places)) for places in mixed],
    ]
    for index, first in enumerate(order):
        history = [step(first), step(first)]
        for later in order[index + 1 :]:
            history += [step(later), step(first)]
        histories.append(history)
    return histories


def _cycle(field: str, values: Sequence[Any]) -> Circumstance:
    return lambda n: {field: values[n % len(values)]}
