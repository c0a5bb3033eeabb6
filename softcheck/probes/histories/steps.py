"""Steps of a history of calls, and the opening, which puts every circumstance of a call before and after every other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import cycle
from typing import Any

import numpy as np

from oracles.formats import FORMATS, Bits, decode, encode
from softcheck.cases.case import Layout
from softcheck.probes.base import Setting
from softcheck.probes.histories.modes import GRAPH, PARAMETER, fitted, together
from softcheck.probes.space import contents, strides

BESIDE = {
    "collect": "gc.collect() and torch.cuda.empty_cache()",
    "one-dimensional": "{function}(one dimension), whatever it gives",
    "integers": "{function}(int64), whatever it gives",
    "undeclared-dtype": "{function}(float64, which is not declared), whatever it gives",
}
"""Acts beside ordinary calls, in words. Whatever they return or raise is nobody's fault; they must leave no mark."""

JUMPS, FAR_BELOW = "jumps", "far below"
"""Contents beside those of ``space.contents``: rows of several kinds, and a row below every number of float16."""
_JUMPS = ("growing", "far apart", "peaks")

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
    mode: str = ""
    """One of ``modes``; empty for none."""
    later: float = 0.0
    """Seconds that pass before the call; the time of other steps all but stands still."""
    slow: float = 0.0
    """Seconds that the call seems to take between two looks at the clock."""
    seed: int = 0
    function: str = "softmax"
    """The operation's name, for words."""

    def __str__(self) -> str:
        if self.act != "call":
            return BESIDE[self.act].format(function=self.function)
        told = [f"{self.dtype} [{self.rows}, {self.columns}]"]
        told += [words for words in (self.layout, self.contents) if words not in {strides.PACKED, contents.PLAIN}]
        told += [f"offset {self.offset}"] * bool(self.offset)
        told += [words for memory, words in _MEMORY.items() if memory == self.memory]
        told += [f"at a second attempt, since allocation {self.failing} of the first one failed"] * bool(self.failing)
        words = f"{self.function}({', '.join(told)}){f' with {self.mode}' if self.mode else ''}"
        words += f" taking {self.slow:g} s between two looks at the clock" * bool(self.slow)
        return f"{words} {self.later:g} s later" if self.later else words

    @property
    def alone(self) -> "Step":
        """The same values in the same layout, in fresh memory and in no special mode."""
        return replace(self, memory="new", mode="", failing=0, later=0.0, slow=0.0)

    def changed(self, *changes: Change, seed: int) -> "Step":
        """Returns the step in circumstances, the later on top of the earlier; two modes that can stand together do."""
        given = {name: value for change in changes for name, value in change.items()}
        if "mode" in given:
            both = together(changes[0].get("mode", ""), given["mode"])
            given["mode"] = fitted(both, given.get("dtype", self.dtype))
        return replace(self, **given, seed=seed)

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
        kinds = _JUMPS if self.contents == JUMPS else (contents.PLAIN if self.contents == FAR_BELOW else self.contents,)
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

    def opening(self, seed: int, calm: int = 0) -> list[list[Change]]:
        """Returns histories, those first that show most for their length.

        The first two put every circumstance once before and once after every other, in a random order and in its
        reverse. The third goes from another dtype to logits below float16's, the fourth makes ``calm`` ordinary calls before others of all contents, the
        fifth rewrites tensors that a call has seen and replays a graph, and the sixth returns to widths after many others.
        Each other history begins with a circumstance of its own, and goes to each later one and back, so that in all
        of them every circumstance comes right after every other. Random histories would need several times as many
        calls to meet as many pairs.
        """
        order = [int(place) for place in np.random.default_rng(seed).permutation(len(self.groups))]
        turns = [cycle(group) for group in self.groups]
        histories = [order, order[::-1]]
        for index, first in enumerate(order):
            back_and_forth = [place for later in order[index + 1 :] for place in (later, first)]
            histories.append([first, first, *back_and_forth])
        changes = [[next(turns[place]) for place in history] for history in histories]
        of_dtype, of_contents = (self._only(name) for name in ("dtype", "contents"))
        far_below = [change for change in of_contents if change["contents"] == FAR_BELOW]
        return [
            *changes[:2],
            [of_dtype[0], *far_below, {}] if of_dtype else [],
            [{}] * calm + of_contents,
            [
                *(change for change in self.changes if change.get("memory") == "same" for _ in range(2)),
                *(
                    each
                    for change in self.changes
                    if change.get("mode") == GRAPH
                    for each in (change, {}, change, {}, change)
                ),
            ],
            [*self.widths] * 2,
            *changes[2:],
        ]

    def _only(self, field: str) -> list[Change]:
        return [change for change in self.changes if [*change] == [field]]


def circumstances(
    setting: Setting, base: Step, modes: Sequence[Sequence[str]], beside: Step | None = None
) -> Circumstances:
    """Returns circumstances of a call: sizes, dtypes, layouts, contents, memory, modes, and acts beside calls.

    Modes of one group take turns in one circumstance. The size of the step ``beside`` is a circumstance too.
    """
    rows, columns = base.rows, base.columns
    declared = setting.declaration
    of_strides = ["transposed", "of twice as many columns", "every second column", strides.EXPANDED]
    layouts = _each("layout", of_strides if "strided" in declared.layouts else [])
    wider = (1100, 300, 8193) if setting.on_gpu else (1100, 300)
    takes_operands = setting.operation.arguments is not None
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
        [{"memory": "same", "mode": PARAMETER}],
        # Masks change with what is hidden, and what is packed for a call may be kept.
        [{"memory": "same", "contents": "hidden columns"}] if takes_operands else [],
        [{"memory": "same", **layouts[1]}] if takes_operands and layouts else [],
        [{"memory": "freed"}],
        [{"later": _LONG_PAUSE}],
        [{"slow": 1.0}, *_each("later", _PAUSES)],
        # A width of its own each time: what is kept for a width is made in the attempt that fails.
        [{"failing": 1 + n % 3, "columns": max(columns - 2 - 2 * n, 1)} for n in range(6)],
        _each("act", [act for act in BESIDE if act != "undeclared-dtype" or "float64" not in declared.dtypes]),
        *(_each("mode", group) for group in modes),
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
