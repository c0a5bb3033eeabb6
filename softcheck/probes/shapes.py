"""Row counts and widths in every layout: few rows, tiles of rows and their neighbours, very many rows, wide rows.

Widths alone are for ``sizes`` and layouts alone for ``meetings``: a width that is wrong in three packed rows, and a layout
that is wrong in three rows of 129, are left to them. A finding here is of the row count, or of both together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import msgspec
import numpy as np

from oracles.formats import Bits, Format
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.matrix_layouts import strided_layouts
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.facts import Where
from softcheck.probes.base import Probe, Setting, Subject, Trial, skipped_of
from softcheck.probes.beside import is_plain, judge_beside, over_both, with_shapes
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.shape_plan import Shape
from softcheck.probes.space.contents import ordinary_rows, unlike_rows
from softcheck.probes.sweep import conclude_sweep, shapes_judged, sweep

_FEW, _FEW_INTERPRETED, _FEWEST = (1, 2, 3, 15, 16, 17), (1, 2, 3, 17), (1, 2, 3)
_KNOWN = 3
"""Rows with which ``sizes`` and ``meetings`` may find what is wrong in any number of rows."""
_MORE = (33, 129, 65, 32, 64, 31, 63, 128, 127, 257, 256, 1025)
"""Row counts around tiles of rows, those first that show most: one more than whole tiles."""
_MANY = (4095, 4096, 4097)
_VERY_MANY = (65535, 65536, 65537, 2**20)
_NARROW, _COLUMNS = 5, 129
_WIDE, _WIDE_ON_GPU = (1100, 2500), (2050, 8193)
_WHOLE = (640, 4096)
"""Widths of whole vectors, tried with rows that do not begin at whole vectors: a kernel may ask for the width alone."""
_OTHER_WIDTHS = (2, 64, _COLUMNS, 300, 1100)
"""Widths in which a row count that fails is tried again."""
_SECONDS_PACKED, _SECONDS, _SECONDS_INTERPRETED, _SECONDS_EACH = 0.6, 0.2, 0.4, 0.05
"""Time for the dispensable row counts of packed rows, and of rows in every other layout; and for each on average."""
_LAYOUTS = ("transposed", "row-step", "column-slice", "every-second-column", "expanded-rows")

_ELEMENTS = 2**24


@dataclass(frozen=True, slots=True)
class _Rows:
    """Row counts to try at one width in one layout."""

    layout: str
    columns: int
    counts: tuple[int, ...]
    dispensable: frozenset[int] = frozenset()

    @property
    def label(self) -> str:
        counts = f"{min(self.counts)}-to-{max(self.counts)}" if self.counts[1:] else f"{self.counts[0]}"
        return f"{self.layout}-{counts}x{self.columns}"

    @property
    def where(self) -> str:
        return f"{self.layout}, {self.columns} columns"

    def placing(self, rows: int) -> Layout:
        return {"packed": PACKED, "offset": Layout(offset=1), **strided_layouts(rows, self.columns)}[self.layout]


class _Shapes(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        strided = _LAYOUTS if "strided" in setting.declaration.layouts else ()
        # The rows of heads' operands lie apart wherever the matrix is not packed.
        layouts = ["packed", *strided[:1]] if setting.has_heads else ["packed", "offset", *strided]
        tried = [rows for number, layout in enumerate(layouts) for rows in _in_layout(setting, layout, number)]
        if strided and not setting.has_heads:
            tried += [_Rows("padded-by-1", columns, _FEWEST) for columns in _WHOLE]
        if setting.on_gpu and setting.dtype != "float64" and not setting.quick:
            tried += [
                _Rows("packed", columns, (setting.fewer(_ELEMENTS // columns, columns),)) for columns in range(1, 9)
            ]
        # Of heads, which are fewer, the largest number may be there already.
        apart = {rows.label: rows for rows in tried if setting.takes(rows.columns)}
        return [Trial(label, rows) for label, rows in apart.items()]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        asked: _Rows = trial.parameters
        takes = subject.setting.takes
        known = [_Rows("packed", asked.columns, (_KNOWN,)), _Rows(asked.layout, _COLUMNS, (_KNOWN,))]
        parts = [tuple(n for n in asked.counts if (n == _KNOWN) is first) for first in (True, False)]
        swept: list[tuple[Trial, Outcome]] = []
        # What is wrong in the known number of rows shows before calls on all others are made.
        for counts in filter(None, parts):
            outcome = _swept(subject, replace(asked, counts=counts))
            if outcome.violations and any(_swept(subject, rows).violations for rows in known if takes(rows.columns)):
                return Outcome(fatal=outcome.fatal)
            swept.append((Trial(trial.label, counts), outcome))
            if outcome.fatal:
                break
        concluded = conclude_sweep(swept, "rows", "row counts")
        return msgspec.structs.replace(
            _with_other_widths(subject, asked, [each for _, each in swept]),
            violations=tuple(shown.violation for shown in concluded.findings),
            tried=tuple(sorted(n for _, each in swept for n in each.tried)),
            judged_shapes=concluded.judged_shapes,
            skipped=next((each.skipped for _, each in swept if each.skipped is not None), None),
            is_cut=any(each.is_cut for _, each in swept),
        )

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        done = _over_both(done)
        missed = any(set(outcome.tried) < set(trial.parameters.counts) for trial, outcome in done if outcome.tried)
        left_out = f"some row counts above {_FEW[-1]} were left out in some layouts, since each has a limit of time"
        return msgspec.structs.replace(
            super().conclude(done),
            trials=sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done),
            skipped=(*skipped_of(done), *([left_out] if missed else [])),
            judged_shapes=shapes_judged(outcome for _, outcome in done),
        )


PROBE = _Shapes()


def _with_other_widths(subject: Subject, asked: _Rows, swept: Sequence[Outcome]) -> Outcome:
    """Adds shapes to the last outcome: the row counts that were tried, and two of them in other widths."""
    broken = [(kind, set(counts)) for each in swept for kind, counts in each.failing.items() if kind in WRONG_KINDS]
    tried = {n for each in swept for n in each.tried}
    known = {Shape(n, asked.columns): frozenset(kind for kind, counts in broken if n in counts) for n in sorted(tried)}
    failing = [shape.rows for shape, kinds in known.items() if kinds]
    if swept[-1].fatal or not failing or asked.columns != _COLUMNS:
        return with_shapes(swept[-1], known)
    least = min(failing)
    near = sorted(tried - set(failing), key=lambda n: abs(n - least))[:1]
    widths = [n for n in sorted({*_OTHER_WIDTHS, asked.columns}) if subject.setting.takes(n)]

    def judge(shape: Shape) -> frozenset[FindingKind]:
        beside = _swept(subject, replace(asked, columns=shape.columns, counts=(shape.rows,), dispensable=frozenset()))
        return frozenset(beside.failing) & WRONG_KINDS

    lines = [[Shape(count, width) for width in widths] for count in (least, *near)]
    return with_shapes(swept[-1], judge_beside(lines, known, judge))


def _over_both(done: Sequence[tuple[Trial, Outcome]]) -> list[tuple[Trial, Outcome]]:
    """Puts the layout and the width before each violation, and a predicate over both sizes where they decide in all trials on the layout."""

    @cache
    def where(layout: str, kind: FindingKind) -> Where | None:
        return over_both([each for trial, each in done if trial.parameters.layout == layout], kind, axis=0)

    def told(asked: _Rows, violation: Violation) -> Violation:
        both = where(asked.layout, violation.kind)
        way = {"layout": asked.layout, "columns": str(asked.columns)}
        if both is None or not is_plain(both):
            return violation.told(asked.where, **way)
        message = f"{asked.layout}, {both.words()}; at {asked.columns} columns {violation.message}"
        facts = msgspec.structs.replace(violation.facts.beside(**way), where=both)
        return msgspec.structs.replace(violation, message=message, facts=facts)

    return [
        (trial, msgspec.structs.replace(each, violations=tuple(told(trial.parameters, v) for v in each.violations)))
        for trial, each in done
    ]


def _in_layout(setting: Setting, layout: str, number: int) -> list[_Rows]:
    """Row counts in one layout.

    Each layout begins with another dispensable count, so that a slow kernel meets all of them in some layout. Under the
    interpreter, and where many variants share the time, more counts are dispensable. In the latter case layouts take turns
    with the wide rows.
    """
    shares = setting.time_share < 1
    few = _FEWEST if shares else _FEW if setting.on_gpu or layout == "packed" else _FEW_INTERPRETED
    left = tuple(count for count in _FEW if count not in few)
    more = _MORE[number % 7 :] + _MORE[: number % 7]
    counts = (*more, *left) if shares else (*left, *more)
    if layout == "packed":
        counts = (*_drawn(setting), *counts)
    if setting.dtype != "float64" and (setting.on_gpu or layout == "packed"):
        # Of float64 the numpy judge takes seconds for a million elements.
        counts += _MANY
    found = [_Rows(layout, _COLUMNS, few if setting.quick else (*few, *counts), frozenset(counts))]
    wide = _WIDE_ON_GPU if setting.on_gpu else _WIDE
    found += [_Rows(layout, columns, _FEWEST) for columns in (wide[(number + 1) % 2 :: 2] if shares else wide)]
    if setting.on_gpu and setting.dtype != "float64" and not setting.quick:
        found.append(_Rows(layout, _NARROW, setting.held(_VERY_MANY, _NARROW)))
    return found


def _drawn(setting: Setting) -> tuple[int, ...]:
    """Row counts of each remainder modulo 8, up to 300 and up to 3000; without a GPU two of them, up to 130."""
    rng = np.random.default_rng(setting.seed)
    if not setting.on_gpu:
        return tuple(8 * int(rng.integers(8, 16)) + int(rest) for rest in rng.permutation(8)[:2])
    return tuple(8 * int(rng.integers(low, 10 * low)) + rest for low in (8, 38) for rest in range(8))


def _swept(subject: Subject, asked: _Rows) -> Outcome:
    seconds = _SECONDS if subject.setting.on_gpu else _SECONDS_INTERPRETED
    return sweep(
        subject,
        asked.counts,
        lambda rows: _rows_of(rows, asked, subject.setting.fmt, subject.setting.seed),
        layout=asked.placing,
        dispensable=asked.dispensable,
        seconds=(_SECONDS_PACKED if asked.layout == "packed" else seconds) * subject.setting.time_share,
        seconds_each=_SECONDS_EACH * subject.setting.time_share,
    )


def _rows_of(rows: int, asked: _Rows, fmt: Format, seed: int) -> Bits:
    if asked.layout == "expanded-rows":
        return np.repeat(ordinary_rows(1, asked.columns, fmt, seed), rows, axis=0)
    return unlike_rows(rows, asked.columns, fmt, seed)
