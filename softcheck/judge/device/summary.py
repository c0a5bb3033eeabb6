"""Reduction of a table of rows to its figures, where the table is: by torch on a device, by numpy on the host.

On a GPU that other processes use too, each read waits for their turns. A table of millions of rows costs one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    elements: int
    error_sum: float
    flushed: int
    special_rows: int
    fully_masked_rows: int
    special_mismatches: int
    error: Peak | None
    error_ftz: float
    """The largest error in a format without subnormals; negative if no row shows one."""
    share: Peak | None
    deviation: float
    """Largest distance of a sum from 1; negative if there is none."""
    broken: dict[FindingKind, tuple[int, int]]


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
    library, figures = found.library, found.figures
    deviations = abs(found["deviation"])
    share_of_sum = deviations / found["allowed"]
    doubtful = (found["doubtful"] > 0) | (abs(share_of_sum - 1) <= max(margin, 2.0**-14))
    bad_sum = share_of_sum > 1
    broken = bad_sum | (figures[_COUNTS].sum(0) > 0)
    few = (broken & ~doubtful).sum() <= most_broken
    chosen = doubtful | (broken & few)
    kept = ~chosen
    broken = broken & kept
    special = (found["row_class"] > 0) & kept
    flags = [chosen, special, found["row_class"] == RowClass.FULLY_MASKED, figures[_MISMATCHES].sum(0) > 0]
    flags[2:] = [flag & special for flag in flags[2:]]
    deviations = library.where(deviations >= 0, deviations, -1.0)
    largest = library.stack([found["error"], found["share"], found["error_ftz"], deviations])
    largest = library.where(kept, largest, -1.0)
    places = largest[:2].argmax(1)

    # All is read at once. Numbers of elements and rows are far below 2^53.
    parts = [
        library.stack(flags).sum(1),
        library.where(kept, figures[_SUMS], 0.0).sum(1),
        library.amax(largest, 1),
        figures[:, places].T.reshape(-1),
    ]
    # On the host it costs little to see that nothing is broken.
    if library is not np or broken.any():
        counts = library.concatenate([(bad_sum & kept)[None], figures[_COUNTS]])
        sizes = library.stack([deviations / found["allowed"], *(found[name] for name in _SIZES)])
        worst = library.where(broken & (counts > 0), library.where(sizes >= 0, sizes, 0.0), -1.0).argmax(1)
        parts += [library.where(broken, counts, 0.0).sum(1), found["row"][worst]]
    read: list[float] = library.concatenate(parts).tolist()

    left, special_rows, fully_masked_rows, mismatches, elements, error_sum, flushed, error, share, ftz, deviation = (
        read[:11]
    )
    of_error, of_share, broken_rows = (
        read[11:][: len(FIELDS)],
        read[11 + len(FIELDS) :][: len(FIELDS)],
        read[11 + 2 * len(FIELDS) :],
    )
    each = zip(_SHOWN, broken_rows[: len(_SHOWN)], broken_rows[len(_SHOWN) :], strict=True) if broken_rows else ()
    return Summary(
        chosen=chosen,
        left=int(left),
        elements=int(elements),
        error_sum=error_sum,
        flushed=int(flushed),
        special_rows=int(special_rows),
        fully_masked_rows=int(fully_masked_rows),
        special_mismatches=int(mismatches),
        error=_peak(of_error, "error") if error >= 0 else None,
        error_ftz=ftz,
        share=_peak(of_share, "share") if share >= 0 else None,
        deviation=deviation,
        broken={kind: (int(count), int(row)) for kind, count, row in each if count},
    )
