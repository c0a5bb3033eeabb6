"""Every width from 1 to 1100, widths around powers of two up to 2^17, and wide rows up to 2^20."""

from collections.abc import Sequence

import msgspec
import numpy as np

from softcheck.contract import WRONG_KINDS, FindingKind
from softcheck.facts import Where
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.beside import is_plain, judge_beside, over_both, with_shapes
from softcheck.probes.judged import Calls
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.shape_plan import Shape
from softcheck.probes.space.contents import edge_rows
from softcheck.probes.sweep import conclude_sweep, sweep

_DENSE_TO = 1100
_BATCH = 100
_WIDE = tuple(2**k + d for k in range(11, 18) for d in (-1, 0, 1))
_WIDEST = (2**18, 2**19 + 1, 2**20)

_OTHER_ROWS, _OTHER_ROWS_ON_GPU = (1, 9, 33), (1, 9, 33, 129)
"""Row counts in which a width that fails is tried again."""

_INTERPRETED = (
    *(1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 32, 33, 64, 65, 100, 127, 128, 129),
    *(255, 257, 385, 511, 512, 513, 640, 641, 769, 900, 1000, 1001, 1023, 1024, 1025, 2047, 2048, 2049, 4097),
)
"""Widths of about 80 programs of a kernel that takes one row each: around powers of two, tiles and vectors."""

_EDGES = frozenset(n + d for n in (*(2**k for k in range(12)), *range(128, 1152, 128)) for d in (-1, 0, 1))
"""Widths that are tried whatever they cost."""


class _Sizes(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        chosen = [n for n in _widths(setting) if setting.takes(n)]
        return [Trial(f"columns-{part[0]}-{part[-1]}", part) for part in _parts(chosen)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting = subject.setting
        widths: tuple[int, ...] = trial.parameters
        order = sorted(widths, key=lambda n: (n <= _DENSE_TO and n not in _EDGES, _spread(n)))
        outcome = sweep(
            subject,
            order,
            lambda columns: edge_rows(columns, setting.fmt, rows=_rows(setting, columns), seed=setting.seed),
            dispensable=frozenset(n for n in widths if n <= _DENSE_TO and n not in _EDGES),
        )
        return _with_other_rows(subject, outcome)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        def beside(where: Where, kind: FindingKind) -> Where:
            both = over_both((outcome for _, outcome in done), kind, axis=1)
            if both is None or is_plain(both):
                return both or where
            return msgspec.structs.replace(where, partly=True)

        return conclude_sweep(done, "columns", "widths", beside=beside)


PROBE = _Sizes()


def _with_other_rows(subject: Subject, outcome: Outcome) -> Outcome:
    """Adds shapes: the widths that were tried, and the narrowest that fails and one that passes in other row counts."""
    setting = subject.setting
    broken = {kind: set(sizes) for kind, sizes in outcome.failing.items() if kind in WRONG_KINDS}
    known = {
        Shape(_rows(setting, n), n): frozenset(kind for kind, sizes in broken.items() if n in sizes)
        for n in outcome.tried
        if n
    }
    failing = [shape for shape, kinds in known.items() if kinds]
    if outcome.fatal or not failing:
        return with_shapes(outcome, known)

    def judge(shape: Shape) -> frozenset[FindingKind]:
        """In one row each of the adversarial rows is tried; in many, as many as fit, and the same rows under another seed."""
        base = _rows(setting, shape.columns)
        parts = [
            edge_rows(shape.columns, setting.fmt, rows=base, seed=setting.seed + number)
            for number in range(-(-shape.rows // base))
        ]
        rows = np.concatenate(parts)
        inputs = [rows[i : i + shape.rows] for i in range(0, base, shape.rows)]
        calls = Calls(subject)
        found: set[FindingKind] = set()
        for bits in inputs:
            calls.make(np.ascontiguousarray(bits))
            found.update(violation.kind for _, each in calls.settle() for violation in each.violations)
        return frozenset(found & WRONG_KINDS)

    least = min(failing, key=lambda shape: shape.columns)
    passing = [shape for shape, kinds in known.items() if not kinds]
    near = sorted(passing, key=lambda shape: abs(shape.columns - least.columns))[:1]
    counts = _OTHER_ROWS_ON_GPU if setting.on_gpu else _OTHER_ROWS
    lines = [[Shape(n, shape.columns) for n in sorted({*counts, shape.rows})] for shape in (least, *near)]
    return with_shapes(outcome, judge_beside(lines, known, judge))


def _widths(setting: Setting) -> Sequence[int]:
    if not setting.on_gpu:
        return _INTERPRETED[::2] if setting.quick else _INTERPRETED
    if setting.quick:
        return sorted({n for n in _EDGES if 1 <= n <= _DENSE_TO} | set(_WIDE[:9]))
    return (*range(1, _DENSE_TO + 1), *_WIDE, *_WIDEST)


def _rows(setting: Setting, columns: int) -> int:
    """Number of rows.

    There are fewer where rows cost more: under the interpreter, in float64 (whose oracle is slow), and in the widest
    rows.
    """
    return 2 if not setting.on_gpu or setting.dtype == "float64" or columns > _WIDE[-1] else 4


def _parts(widths: Sequence[int]) -> list[tuple[int, ...]]:
    """Splits widths into trials of a hundred narrow widths, or of the widths around one power of two.

    A width that ends its process costs one such trial.
    """
    parts: dict[tuple[int, int], list[int]] = {}
    for n in widths:
        key = (0, (n - 1) // _BATCH) if n <= _DENSE_TO else (1, round(np.log2(n)))
        parts.setdefault(key, []).append(n)
    return [tuple(part) for part in parts.values()]


def _spread(n: int) -> int:
    """Sort key that spreads any first part of the widths evenly over all: the reversed order of their bits."""
    return int(f"{n & 127:07b}"[::-1], 2)
