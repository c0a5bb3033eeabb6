"""Steps of a history of calls, and the opening, which puts every circumstance of a call before and after every other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np

from oracles.formats import FORMATS, Bits, Format, decode, encode
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.matrix_layouts import strided_layouts
from softcheck.probes.base import Setting
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.modes import PARAMETER

BESIDE = ("collect", "one-dimensional", "integers", "undeclared-dtype")
"""Acts beside ordinary calls. Whatever they return or raise is nobody's fault; they must leave no mark."""

_WORDS = {
    "collect": "gc.collect() and torch.cuda.empty_cache()",
    "one-dimensional": "{function}(one dimension), whatever it gives",
    "integers": "{function}(int64), whatever it gives",
    "undeclared-dtype": "{function}(float64, which is not declared), whatever it gives",
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
    later: float = 0.0
    """Seconds that pass before the call; the time of other steps all but stands still."""
    slow: float = 0.0
    """Seconds that the call seems to take between two looks at the clock."""
    seed: int = 0
    function: str = "softmax"
    """The operation's name, for words."""

    def __str__(self) -> str:
        if self.act != "call":
            return _WORDS[self.act].format(function=self.function)
        told = [f"{self.dtype} [{self.rows}, {self.columns}]"]
        told += [words for words in (self.layout, self.contents) if words not in {"packed", "ordinary"}]
        told += {"same": ["the same tensor with new values"], "freed": ["where a freed tensor lay"]}.get(
            self.memory, []
        )
        told += [f"at a second attempt, since allocation {self.failing} of the first one failed"] * bool(self.failing)
        words = f"{self.function}({', '.join(told)}){f' with {self.mode}' if self.mode else ''}"
        words += f" taking {self.slow:g} s between two looks at the clock" * bool(self.slow)
        return f"{words} {self.later:g} s later" if self.later else words

    @property
    def alone(self) -> "Step":
        """The same values in the same layout, in fresh memory and in no special mode."""
        return replace(self, memory="new", mode="", failing=0, later=0.0, slow=0.0)

    def placing(self) -> Layout:
        """Strides and offset of the input."""
        unusual = strided_layouts(self.rows, self.columns)
        return {"packed": PACKED, "offset": Layout(offset=1), **unusual}[self.layout]

    def bits(self) -> Bits:
        """Bit patterns of the input, [rows, columns]; no two steps of a history have equal rows."""
        fmt = FORMATS[self.dtype]
        bits = ordinary_rows(self.rows, self.columns, fmt, self.seed)
        if bits.size:
            special = {
                "masked-row": -np.inf,
                "masked-columns": -np.inf,
                "nan": np.nan,
                "infinity": np.inf,
                "peak": 3e4,
            }.get(self.contents)
            first = encode(np.array([np.nan if special is None else special]), fmt)[0]
            if self.contents == "jumps":
                bits = _with_jumps(bits, fmt)
            elif self.contents == "far-below":
                # Below every number of float16, where another dtype has such numbers.
                bits[0] = encode(decode(bits[0], fmt) - min(1e5, fmt.max / 2), fmt)
            elif self.contents == "masked-row":
                bits[0] = first
            elif self.contents == "masked-columns":
                bits[:, ::3] = first
            elif special is not None:
                bits[0, -1] = first
            if self.layout == "expanded-rows":
                bits[:] = bits[0]
        return bits


def _with_jumps(bits: Bits, fmt: Format) -> Bits:
    """Rows whose maximum lies far from 0, grows or falls on the way, or stands alone at one end: each fourth row alike."""
    values = decode(bits, fmt)
    values[::4, -max(1, bits.shape[1] // 4) :] += 60.0
    values[1::4] += 900.0
    values[2::4, 0] += 90.0
    values[3::4, -1] += 30.0
    return encode(values, fmt)


_WIDTHS = 36
"""Widths in a row: more than most caches hold."""
_PAUSES = (2.0, 0.06)
_LONG_PAUSE = 3700.0
"""Seconds after which what a variant keeps for a moment, for a second, or at most for an hour is too old."""

Change = Mapping[str, Any]
"""Fields that make a circumstance of an ordinary step."""

Code = tuple[int, int]
"""Two of the changes of ``Circumstances.drawn``, the second on top of the first; change 0 leaves a step as it is."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances of a call, each as a group of changes that take turns."""

    base: Step
    """An ordinary step."""
    groups: Sequence[Sequence[Change]]
    widths: Sequence[Change]
    """Changes to many widths, none of them in the groups."""

    @property
    def changes(self) -> list[Change]:
        """All changes: none first, then the groups' in order, and widths last."""
        return [{}, *(change for group in self.groups for change in group), *self.widths]

    def opening(self, seed: int, calm: int = 0) -> list[list[Code]]:
        """Returns histories, those first that show most for their length.

        The first two put every circumstance once before and once after every other, in a random order and in its
        reverse. The third goes from another dtype to logits below float16's, the fourth makes ``calm`` ordinary calls before others of all contents, the
        fifth rewrites tensors that a call has seen, and the sixth returns to widths after many others.
        Each other history begins with a circumstance of its own, and goes to each later one and back, so that in all
        of them every circumstance comes right after every other. Random histories would need several times as many
        calls to meet as many pairs.
        """
        order = [int(place) for place in np.random.default_rng(seed).permutation(len(self.groups))]
        firsts = np.cumsum([1, *map(len, self.groups)])
        turns = [
            cycle(range(int(first), int(first) + len(group))) for first, group in zip(firsts, self.groups, strict=False)
        ]
        last = len(self.changes)
        histories = [order, order[::-1]]
        for index, first in enumerate(order):
            back_and_forth = [place for later in order[index + 1 :] for place in (later, first)]
            histories.append([first, first, *back_and_forth])
        codes: list[list[Code]] = [[(next(turns[place]), 0) for place in history] for history in histories]
        widths: list[Code] = [(place, 0) for place in range(last - len(self.widths), last)]
        rewritten: list[Code] = [(n, 0) for n, change in enumerate(self.changes) if change.get("memory") == "same"]
        others: list[Code] = [(n, 0) for n, change in enumerate(self.changes) if [*change] == ["contents"]]
        far_below: list[Code] = [
            (n, 0) for n, change in enumerate(self.changes) if change.get("contents") == "far-below"
        ]
        dtypes: list[Code] = [(n, 0) for n, change in enumerate(self.changes) if [*change] == ["dtype"]]
        return [
            *codes[:2],
            [*dtypes[:1], *far_below, (0, 0)] if dtypes else [],
            [(0, 0)] * calm + others,
            [code for code in rewritten for _ in range(2)],
            widths * 2,
            *codes[2:],
        ]


def circumstances(
    setting: Setting, base: Step, modes: Sequence[Sequence[str]], beside: Step | None = None
) -> Circumstances:
    """Returns circumstances of a call: sizes, dtypes, layouts, contents, memory, modes, and acts beside calls.

    Modes of one group take turns in one circumstance. The size of the step ``beside`` is a circumstance too.
    """
    rows, columns = base.rows, base.columns
    declared = setting.declaration
    layouts = ["offset"]
    if "strided" in declared.layouts:
        layouts += ["transposed", "row-step", "every-second-column", "expanded-rows"]
    wider = (1100, 300, 8193) if setting.on_gpu else (1100, 300)
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
        _each("layout", layouts),
        _each("layout", layouts[1:]),
        _each("contents", ("masked-columns", "nan", "masked-row", "infinity", "peak", "far-below")),
        [{"memory": "same"}],
        [{"memory": "same", "mode": PARAMETER}],
        # Masks change with what is hidden, and what is packed for a call may be kept.
        [{"memory": "same", "contents": "masked-columns"}] if setting.operation.arguments is not None else [],
        _each("layout", layouts[2:3], memory="same") if setting.operation.arguments is not None else [],
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
    return Circumstances(base, [group for group in taken if group], widths)


def _same_digits(rows: int, columns: int) -> Change:
    """Moves the first digit of the columns to the rows: 2 x 129 becomes 21 x 29."""
    first, rest = str(columns)[0], str(columns)[1:].lstrip("0")
    return {"rows": int(f"{rows}{first}"), "columns": int(rest)} if rest else {"rows": 3 * rows}


def _each(field: str, values: Sequence[Any], **others: Any) -> list[Change]:
    return [{field: value, **others} for value in values]
