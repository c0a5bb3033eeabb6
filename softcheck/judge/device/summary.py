"""Reduction of a table of rows to its figures, where the table is: by torch on a device, by numpy on the host.

On a GPU that other processes use too, each read waits for their turns. A table of millions of rows costs one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from oracles.reference import RowClass
from softcheck.contract import FindingKind
from softcheck.judge.device.fields import FIELDS, PLACES, FigureTable

_KINDS = (
    FindingKind.ULP_EXCEEDS_BOUND,
    FindingKind.OUT_OF_RANGE,
    FindingKind.NAN_MISMATCH,
    FindingKind.INF_MISMATCH,
    FindingKind.MASKED_NOT_ZERO,
)
"""Kinds of elements that break a promise, in the order of their counts."""
_COUNTS = slice(PLACES["exceeding"], PLACES["masked_not_zero"] + 1)
_MISMATCHES = slice(PLACES["nan_mismatch"], PLACES["masked_not_zero"] + 1)
_SIZES = ("share", "range_size", "nan_mismatch", "inf_mismatch", "masked_size")
"""The figure that makes a row the witness of each kind."""
_SHOWN = (FindingKind.SUM_VIOLATION, *_KINDS)
_SUMS = slice(PLACES["comparable"], PLACES["flushed"] + 1)


class Peak(NamedTuple):
    """A largest figure of a table, and the element that shows it, with its bit patterns."""

    value: float
    row: int
    column: int
    logit: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of the rows of a table that are kept: rows that are right, or broken beyond doubt and many.

    A peak is None if no row shows one. ``broken`` maps each broken promise to the number of its elements (of its rows,
    for sums) and the row that shows the worst.
    """

    chosen: Any
    """Rows that are left to the numpy judge: bool, [rows], where the table is."""
    left: int
    """Number of chosen rows."""
    elements: int = 0
    error_sum: float = 0.0
    flushed: int = 0
    special_rows: int = 0
    fully_masked_rows: int = 0
    special_mismatches: int = 0
    error: Peak | None = None
    error_ftz: float = -1.0
    """The largest error in a format without subnormals; negative if no row shows one."""
    share: Peak | None = None
    deviation: float = -1.0
    """Largest distance of a sum from 1; negative if there is none."""
    broken: dict[FindingKind, tuple[int, int]] = field(default_factory=dict)


def peak(found: FigureTable, figure: str, place: int) -> Peak | None:
    """The figure, ``error`` or ``share``, of the row at a place of a table on the host; None if the row has none."""
    one = _peak(found.figures[:, place].tolist(), figure)
    return one if one.value >= 0 else None


def _peak(of_row: Sequence[float], figure: str) -> Peak:
    """A figure from all figures of its row."""
    value, column, logit, output = of_row[PLACES[figure] :][:4]
    return Peak(value, int(of_row[PLACES["row"]]), int(column), int(logit), int(output))


def summarise(found: FigureTable, *, margin: float, most_broken: int) -> Summary:
    """Chooses rows for the numpy judge and reduces the figures of the other rows.

    Rows in doubt are chosen (``margin`` is relative, of the table's own error), and broken rows too if they are at most
    ``most_broken``.
    """
    # The deviations of special rows are NaN, and their allowances may be 0.
    with np.errstate(all="ignore"):
        return _summarised(found, margin, most_broken)


def _summarised(found: FigureTable, margin: float, most_broken: int) -> Summary:
    library = found.library
    share_of_sum = abs(found["deviation"]) / found["allowed"]
    doubtful = (found["doubtful"] > 0) | (abs(share_of_sum - 1) <= max(margin, 2.0**-14))
    bad_sum = share_of_sum > 1
    broken = bad_sum | (found.figures[_COUNTS].sum(0) > 0)
    chosen = doubtful | (broken & ((broken & ~doubtful).sum() <= most_broken))
    left = int(chosen.sum())
    if left:
        found, bad_sum, broken = found.rows(~chosen), bad_sum[~chosen], broken[~chosen]
    figures = found.figures
    if not figures.shape[1]:
        return Summary(chosen=chosen, left=left)
    deviations = abs(found["deviation"])
    largest = [found["error"], found["share"], found["error_ftz"], library.where(deviations >= 0, deviations, -1.0)]
    largest = library.stack(largest)
    special = found["row_class"] > 0
    parts = [
        figures[_SUMS].sum(1),
        library.amax(largest, 1),
        figures[:, largest[:2].argmax(1)].T.reshape(-1),
        library.stack([special, found["row_class"] == RowClass.FULLY_MASKED]).sum(1),
    ]
    if broken.any():
        counts = library.concatenate([bad_sum[None], figures[_COUNTS]])
        sizes = library.stack([deviations / found["allowed"], *(found[name] for name in _SIZES)])
        worst = library.where(counts > 0, library.where(sizes >= 0, sizes, 0.0), -1.0).argmax(1)
        mismatches = special & (figures[_MISMATCHES].sum(0) > 0)
        parts += [counts.sum(1), found["row"][worst], mismatches.sum()[None]]
    # All is read at once. Numbers of elements and rows are far below 2^53.
    read = iter(library.concatenate(parts).tolist())
    elements, error_sum, flushed, error, share, error_ftz, deviation = islice(read, 7)
    of_error, of_share = (list(islice(read, len(FIELDS))) for _ in range(2))
    special_rows, fully_masked_rows = islice(read, 2)
    shown, rows, mismatched = (list(islice(read, length)) for length in (len(_SHOWN), len(_SHOWN), 1))
    each = zip(_SHOWN, shown, rows, strict=False)
    return Summary(
        chosen=chosen,
        left=left,
        elements=int(elements),
        error_sum=error_sum,
        flushed=int(flushed),
        special_rows=int(special_rows),
        fully_masked_rows=int(fully_masked_rows),
        special_mismatches=int(mismatched[0]) if mismatched else 0,
        error=_peak(of_error, "error") if error >= 0 else None,
        error_ftz=error_ftz,
        share=_peak(of_share, "share") if share >= 0 else None,
        deviation=deviation,
        broken={kind: (int(count), int(row)) for kind, count, row in each if count},
    )
