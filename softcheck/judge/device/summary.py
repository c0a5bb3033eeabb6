"""Reduction of a table of rows to its figures, where the table is: by torch on a device, by numpy on the host.

On a GPU that other processes use too, each read waits for their turns. A table of millions of rows costs one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from oracles.formats import Format, bits_hex
from softcheck.contract import FindingKind
from softcheck.judge.device.fields import FIELDS, PLACES, FigureTable
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations.ulp import LARGEST

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
_SUMS = slice(PLACES["special"], PLACES["flushed"] + 1)
_FLAGS = slice(PLACES["doubtful"], PLACES["masked_not_zero"] + 1)
_PEAKS = slice(PLACES["error"], PLACES["share"] + 1)
_MAXIMA = slice(PLACES["error"], PLACES["error_ftz"] + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of the rows of a table that are kept: rows that are right, or broken beyond doubt and many."""

    chosen: Any
    """Rows that are left to the numpy judge: bool, [rows], where the table is."""
    left: int
    """Number of chosen rows."""
    kept: Measurement
    """Figures of the other rows, without their number, histogram and violations."""
    broken: dict[FindingKind, tuple[int, int]] = field(default_factory=dict)
    """For each broken promise the number of its elements (of its rows, for sums) and the row that shows the worst."""


def peak(found: FigureTable, figure: str, place: int, fmt: Format) -> Extreme | None:
    """The figure, ``error`` or ``share``, of the row at a place of a table on the host; None if the row has none."""
    return _peak(found.figures[:, place].tolist(), figure, fmt)


def _peak(of_row: Sequence[float], figure: str, fmt: Format) -> Extreme | None:
    """A figure from all figures of its row."""
    value, row = of_row[PLACES[figure]], int(of_row[PLACES["row"]])
    column, logit, output = (int(number) for number in of_row[PLACES[f"{figure}_column"] :][:3])
    return (
        Extreme(min(value, LARGEST), row, column, bits_hex(logit, fmt), bits_hex(output, fmt)) if value >= 0 else None
    )


def summarise(found: FigureTable, fmt: Format, *, margin: float, most_broken: int) -> Summary:
    """Chooses rows for the numpy judge and reduces the figures of the other rows.

    Rows in doubt are chosen (``margin`` is relative, of the table's own error), and broken rows too if they are at most
    ``most_broken``.
    """
    # The deviations of special rows are NaN, and their allowances may be 0.
    with np.errstate(all="ignore"):
        return _summarised(found, fmt, margin, most_broken)


def _summarised(found: FigureTable, fmt: Format, margin: float, most_broken: int) -> Summary:
    margin = max(margin, 2.0**-14)
    deviations = abs(found["deviation"])
    share_of_sum = deviations / found["allowed"]
    # On the host it costs little to see that no row is broken or in doubt.
    if found.library is np and not (found.figures[_FLAGS].any() or (share_of_sum >= 1 - margin).any()):
        return _reduced(found, fmt, np.zeros(len(deviations), dtype=np.bool_), 0, None)
    doubtful = (found["doubtful"] > 0) | (abs(share_of_sum - 1) <= margin)
    bad_sum = share_of_sum > 1
    broken = bad_sum | (found.figures[_COUNTS].sum(0) > 0)
    chosen = doubtful | (broken & ((broken & ~doubtful).sum() <= most_broken))
    left = int(chosen.sum())
    if left:
        found, bad_sum, broken = found.rows(~chosen), bad_sum[~chosen], broken[~chosen]
    return _reduced(found, fmt, chosen, left, bad_sum if broken.any() else None)


def _reduced(found: FigureTable, fmt: Format, chosen: Any, left: int, bad_sum: Any | None) -> Summary:
    """Reduces the rows that are kept; ``bad_sum`` tells those with a wrong sum, if any row breaks a promise."""
    library, figures = found.library, found.figures
    if not figures.shape[1]:
        return Summary(chosen=chosen, left=left, kept=Measurement(rows=0, columns=0))
    deviations = abs(found["deviation"])
    parts = [
        figures[_SUMS].sum(1),
        library.amax(figures[_MAXIMA], 1),
        library.where(deviations >= 0, deviations, -1.0).max()[None],
        figures[:, figures[_PEAKS].argmax(1)].T.reshape(-1),
    ]
    if bad_sum is not None:
        counts = library.concatenate([bad_sum[None], figures[_COUNTS]])
        sizes = library.stack([deviations / found["allowed"], *(found[name] for name in _SIZES)])
        worst = library.where(counts > 0, library.where(sizes >= 0, sizes, 0.0), -1.0).argmax(1)
        mismatches = (found["special"] > 0) & (figures[_MISMATCHES].sum(0) > 0)
        parts += [counts.sum(1), found["row"][worst], mismatches.sum()[None]]
    # All is read at once. Numbers of elements and rows are far below 2^53.
    read = iter(library.concatenate(parts).tolist())
    special_rows, fully_masked_rows, elements, error_sum, flushed, _, _, error_ftz, deviation = islice(read, 9)
    of_error, of_share = (list(islice(read, len(FIELDS))) for _ in range(2))
    shown, rows, mismatched = (list(islice(read, length)) for length in (len(_SHOWN), len(_SHOWN), 1))
    each = zip(_SHOWN, shown, rows, strict=False)
    kept = Measurement(
        rows=0,
        columns=0,
        elements=int(elements),
        max_ulp=_peak(of_error, "error", fmt),
        ulp_sum=error_sum,
        max_ulp_ftz=error_ftz if error_ftz >= 0 else None,
        max_bound_share=_peak(of_share, "share", fmt),
        flushed=int(flushed),
        max_sum_deviation=deviation if deviation >= 0 else None,
        sum_violations=int(shown[0]) if shown else 0,
        special_rows=int(special_rows),
        fully_masked_rows=int(fully_masked_rows),
        special_mismatches=int(mismatched[0]) if mismatched else 0,
    )
    broken = {kind: (int(count), int(row)) for kind, count, row in each if count}
    return Summary(chosen=chosen, left=left, kept=kept, broken=broken)
