"""Steps of a history of calls, and the opening, which puts every circumstance of a call before and after every other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import cycle
from typing import Any

import numpy as np
import torch

from oracles.formats import FORMATS, Bits, decode, encode
from softcheck.cases.case import Layout
from softcheck.operations.registry import DEFAULT
from softcheck.probes.base import Setting
from softcheck.probes.histories.modes import GRAPH, PARAMETER, field_of, fitted, modes
from softcheck.probes.space import contents, strides

COLLECT = "collect"
BESIDE: Mapping[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    COLLECT: ("gc.collect() and torch.cuda.empty_cache()", lambda x: x),
    "one-dimensional": ("{}(one dimension), whatever it gives", torch.Tensor.flatten),
    "integers": ("{}(int64), whatever it gives", lambda x: torch.ones_like(x, dtype=torch.int64)),
    "undeclared-dtype": ("{}(float64, which is not declared), whatever it gives", torch.Tensor.double),
}
"""Acts beside ordinary calls in words, each with the input of its call. Whatever they return or raise is nobody's fault; they must
leave no mark."""

JUMPS, FAR_BELOW = "jumps", "far below"
"""Contents beside those of ``space.contents``: rows of several kinds, and a row below every number of float16."""
_KINDS = {JUMPS: ("growing", "far apart", "peaks"), FAR_BELOW: (contents.PLAIN,)}

_MEMORY = {"same": "the same tensor with new values", "freed": "where a freed tensor lay"}

Change = Mapping[str, Any]
"""Fields that make a circumstance of an ordinary step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a history: a call in its circumstances, or an act beside calls."""

    act: str = "call"
    """"call", or one of ``BESIDE``."""
    rows: int
    columns: int
    dtype: str
    layout: str = strides.PACKED
    offset: int = 0
    contents: str = contents.PLAIN
    memory: str = "new"
    """"new"; "same": the tensor of the last call of this shape, dtype and layout, rewritten; "freed": as new, after that
    tensor was freed."""
    failing: int = 0
    """Number of the allocation at which a first attempt at this call runs out of memory; 0 for no such attempt."""
    grad: str = ""
    """A mode that asks for a gradient; empty for none."""
    settings: str = ""
    """A mode that changes torch's settings; empty for none."""
    mode: str = ""
    """Another mode; empty for none."""
    later: float = 0.0
    """Seconds that pass before the call; the time of other steps all but stands still."""
    slow: float = 0.0
    """Seconds that the call seems to take between two looks at the clock."""
    seed: int = 0
    function: str = DEFAULT
    """The operation's name, for words."""

    def __str__(self) -> str:
        if self.act != "call":
            return BESIDE[self.act][0].format(self.function)
        told = [f"{self.dtype} [{self.rows}, {self.columns}]"]
        told += [words for words in (self.layout, self.contents) if words not in {strides.PACKED, contents.PLAIN}]
        told += [f"offset {self.offset}"] * bool(self.offset)
        told += [words for memory, words in _MEMORY.items() if memory == self.memory]
        told += [f"at a second attempt, since allocation {self.failing} of the first one failed"] * bool(self.failing)
        around = " + ".join(filter(None, (self.mode, self.settings, self.grad)))
        words = f"{self.function}({', '.join(told)}){around and f' with {around}'}"
        words += f" taking {self.slow:g} s between two looks at the clock" * bool(self.slow)
        return f"{words} {self.later:g} s later" if self.later else words

    @property
    def alone(self) -> "Step":
        """The same values in the same layout, in fresh memory and in no special mode."""
        return replace(self, memory="new", grad="", settings="", mode="", failing=0, later=0.0, slow=0.0)

    def changed(self, change: Change, seed: int) -> "Step":
        """Returns the step in circumstances, with values of a seed where they name none."""
        found = replace(self, **{"seed": seed, **change})
        return replace(found, settings=fitted(found.settings, found.dtype))

    def simpler(self, base: "Step") -> list["Step"]:
        """Returns steps of one circumstance fewer each, which is then as an ordinary step has it."""
        names = [each.name for each in fields(self) if getattr(self, each.name) != getattr(base, each.name)]
        paused = [replace(self, slow=0.0, later=_PAUSES[0])] if self.slow else []
        return [*(replace(self, **{name: getattr(base, name)}) for name in names if name != "seed"), *paused]

    def placing(self) -> Layout:
        """Strides and offset of the input."""
        return strides.of_matrix(self.rows, self.columns, self.layout, self.offset)

    def bits(self) -> Bits:
        """Bit patterns of the input, [rows, columns]; no two steps of a history have equal rows."""
        fmt = FORMATS[self.dtype]
        rng = np.random.default_rng([self.seed, self.rows, self.columns])
        kinds = _KINDS.get(self.contents, (self.contents,))
        drawn = [contents.rows_of(kind, self.rows, self.columns, fmt, rng) for kind in kinds]
        bits = drawn[0]
        for place, others in enumerate(drawn):
            bits[place :: len(kinds)] = others[place :: len(kinds)]
        if self.contents == FAR_BELOW and bits.size:
            bits[0] = encode(decode(bits[0], fmt) - min(1e5, fmt.max / 2), fmt)
        if self.layout == strides.EXPANDED and bits.size:
            bits[:] = bits[0]
        return bits


_WIDTHS = 36
"""Widths in a row: more than most caches hold."""
_PAUSES = (2.0, 0.06)
_LONG_PAUSE = 3700.0
"""Seconds after which what a variant keeps for a moment, for a second, or at most for an hour is too old."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances of a call, each as a group of changes that take turns."""

    groups: Sequence[Sequence[Change]]
    widths: Sequence[Change]
    """Changes to many widths, none of them in the groups."""

    @property
    def changes(self) -> list[Change]:
        """All changes but widths: none first, then the groups' in order."""
        return [{}, *(change for group in self.groups for change in group)]

    def in_a_row(self, seed: int) -> list[list[Change]]:
        """Returns two histories that put every circumstance once before and once after every other, in a random order and its reverse."""
        turns, order = [cycle(group) for group in self.groups], self._order(seed)
        return [[next(turns[place]) for place in history] for history in (order, order[::-1])]

    def special(self, calm: int) -> list[list[Change]]:
        """Returns histories of a few circumstances each.

        They go from another dtype to logits below float16's, make ``calm`` ordinary calls before others of all contents, and rewrite
        tensors that a call has seen and replay a graph.
        """
        of_dtype, of_contents = (
            [change for change in self.changes if [*change] == [field]] for field in ("dtype", "contents")
        )
        far_below = [change for change in of_contents if change["contents"] == FAR_BELOW]
        kept = [change for change in self.changes if change.get("memory") == "same" or change.get("mode") == GRAPH]
        return [
            [of_dtype[0], *far_below, {}] if of_dtype else [],
            [{}] * calm + of_contents,
            [change for change in kept for _ in range(2)],
        ]

    def in_pairs(self, seed: int) -> list[list[Change]]:
        """Returns a history that comes back to widths after many others, and those in which every circumstance comes right after every other.

        Each begins with a circumstance of its own, and goes to each later one and back. Random histories would need several times
        as many calls to meet as many pairs.
        """
        turns, order = [cycle(group) for group in self.groups], self._order(seed)
        found: list[list[Change]] = [[*self.widths] * 2]
        for index, first in enumerate(order):
            places = [first, first, *(place for later in order[index + 1 :] for place in (later, first))]
            found.append([next(turns[place]) for place in places])
        return found

    def _order(self, seed: int) -> list[int]:
        return [int(place) for place in np.random.default_rng(seed).permutation(len(self.groups))]


def circumstances(setting: Setting, base: Step, beside: Step | None = None) -> Circumstances:
    """Returns circumstances of a call: sizes, dtypes, layouts, contents, memory, modes, and acts beside calls.

    Modes of one group take turns in one circumstance. The size of the step ``beside`` is a circumstance too.
    """
    rows, columns = base.rows, base.columns
    declared = setting.declaration
    of_strides = ["transposed", "of twice as many columns", "every second column", strides.EXPANDED]
    layouts = _each("layout", of_strides if "strided" in declared.layouts else [])
    wider = (1100, 300, 8193) if setting.on_gpu else (1100, 300)
    takes_operands = setting.operation.arguments is not None
    known = modes(on_gpu=setting.on_gpu, dtype=base.dtype, has_products=setting.has_products)
    around: list[list[Change]] = [[{field_of(mode): mode} for mode in group] for group in known]
    groups: list[list[Change]] = [
        [{}],
        _each("rows", (3 * rows + 1, 1)),
        # As many elements in another shape; and the same digits, as a key without a separator has them.
        [{"rows": 3 * rows, "columns": max(columns // 3, 1)}, _same_digits(rows, columns)],
        _each("columns", (columns // 3, 1, columns - 1)),
        # A row without columns has no target and no one answer that everybody means.
        [{"columns": 0}, {"rows": 0}] if setting.operation.answers_elements else [{"rows": 0}],
        _each("columns", [n for n in wider if n > columns]),
        _each("dtype", [dtype for dtype in declared.dtypes if dtype != base.dtype]),
        [{"offset": 1}, *layouts],
        layouts,
        _each("contents", ("hidden columns", "NaN", "hidden rows", "+inf", contents.HUGE, "peaks", FAR_BELOW)),
        [{"memory": "same"}],
        [{"memory": "same", "grad": PARAMETER}],
        # Masks change with what is hidden, and what is packed for a call may be kept.
        [{"memory": "same", "contents": "hidden columns"}] if takes_operands else [],
        [{"memory": "same", **layouts[1]}] if takes_operands and layouts else [],
        [{"memory": "freed"}],
        [{"later": _LONG_PAUSE}],
        [{"slow": 1.0}, *_each("later", _PAUSES)],
        # A width of its own each time: what is kept for a width is made in the attempt that fails.
        [{"failing": 1 + n % 3, "columns": max(columns - 2 - 2 * n, 1)} for n in range(6)],
        _each("act", [act for act in BESIDE if act != "undeclared-dtype" or "float64" not in declared.dtypes]),
        *around,
        [] if beside is None else [{"rows": beside.rows, "columns": beside.columns}],
    ]
    taken = [[change for change in group if setting.takes(change.get("columns", columns))] for group in groups]
    widths = [
        {"rows": 1, "columns": n} for n in range(columns + _WIDTHS, columns, -1) if columns > 1 and setting.takes(n)
    ]
    return Circumstances([group for group in taken if group], widths)


def _same_digits(rows: int, columns: int) -> Change:
    """Moves the first digit of the columns to the rows: 2 x 129 becomes 21 x 29."""
    first, rest = str(columns)[0], str(columns)[1:].lstrip("0")
    return {"rows": int(f"{rows}{first}"), "columns": int(rest)} if rest else {"rows": 3 * rows}


def _each(field: str, values: Sequence[Any]) -> list[Change]:
    return [{field: value} for value in values]
