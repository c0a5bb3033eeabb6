"""Reduction of a table of rows to its figures, where the table is: by torch on a device, by numpy on the host.

On a GPU that other processes use too, each read waits for their turns. A table of millions of rows costs one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from oracles.reference import RowClass
from softcheck.contract import FindingKind
from softcheck.judge.device.fields import FIELDS, PLACES, FigureTable

_KINDS = {
    FindingKind.ULP_EXCEEDS_BOUND: ("exceeding", "share"),
    FindingKind.NAN_MISMATCH: ("nan_mismatch", "nan_mismatch"),
    FindingKind.INF_MISMATCH: ("inf_mismatch", "inf_mismatch"),
    FindingKind.OUT_OF_RANGE: ("out_of_range", "range_size"),
    FindingKind.MASKED_NOT_ZERO: ("masked_not_zero", "masked_size"),
}
"""Counts of elements by kind, and the figure that makes a row its witness."""
_SHOWN = (FindingKind.SUM_VIOLATION, *_KINDS)
_SUMS = ("comparable", "error_sum", "flushed")
_PEAKS = ("error", "share")


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
    value, *rest = (float(found[f"{figure}{part}"][place]) for part in ("", "_column", "_logit", "_output"))
    column, logit, output = map(int, rest)
    return Peak(value, int(found["row"][place]), column, logit, output) if value >= 0 else None


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
    deviations = abs(found["deviation"])
    share_of_sum = deviations / found["allowed"]
    doubtful = (found["doubtful"] > 0) | (abs(share_of_sum - 1) <= max(margin, 2.0**-14))
    bad_sum = share_of_sum > 1
    mismatched = _figures(found, ("nan_mismatch", "inf_mismatch", "masked_not_zero")).sum(0) > 0
    broken = mismatched | bad_sum | (_figures(found, ("exceeding", "out_of_range")).sum(0) > 0)
    few = (broken & ~doubtful).sum() <= most_broken
    chosen = doubtful | (broken & few)
    kept = ~chosen
    bad_sum, broken = bad_sum & kept, broken & kept
    special = (found["row_class"] > 0) & kept
    deviations = library.nan_to_num(deviations, nan=-1.0)

    # Few operations, each on several figures: on a table of few rows the number of operations takes the time.
    flags = library.stack([chosen, special, (found["row_class"] == RowClass.FULLY_MASKED) & kept, special & mismatched])
    peaks = library.where(kept, _figures(found, _PEAKS), -1.0)
    counts = library.concatenate([bad_sum[None], _figures(found, [count for count, _ in _KINDS.values()])])
    sizes = [(deviations / found["allowed"])[None], _figures(found, [size for _, size in _KINDS.values()])]
    sizes = library.nan_to_num(library.concatenate(sizes), nan=0.0)
    worst = library.where(broken & (counts > 0), sizes, -1.0).argmax(1)
    largest = library.where(kept, library.stack([deviations, found["error_ftz"]]), -1.0)

    # Numbers of elements and rows are far below 2^53.
    parts = {
        ("left", "special", "fully_masked", "mismatches"): flags.sum(1),
        _SUMS: library.where(kept, _figures(found, _SUMS), 0.0).sum(1),
        ("deviation", "error_ftz"): library.amax(largest, 1),
        tuple(kind.value for kind in _SHOWN): library.where(broken, counts, 0.0).sum(1),
        tuple(f"{kind.value}_row" for kind in _SHOWN): found["row"][worst],
        _PEAKS: library.amax(peaks, 1),
        tuple((name, place) for name in FIELDS for place in _PEAKS): found.figures[:, peaks.argmax(1)].reshape(-1),
    }
    read: dict[Any, float] = dict(zip(chain(*parts), library.concatenate(list(parts.values())).tolist(), strict=True))

    def element(name: str) -> Peak | None:
        if not read[name] >= 0:
            return None
        rest = (int(read[field, name]) for field in ("row", f"{name}_column", f"{name}_logit", f"{name}_output"))
        return Peak(read[name], *rest)

    return Summary(
        chosen=chosen,
        left=int(read["left"]),
        elements=int(read["comparable"]),
        error_sum=read["error_sum"],
        flushed=int(read["flushed"]),
        special_rows=int(read["special"]),
        fully_masked_rows=int(read["fully_masked"]),
        special_mismatches=int(read["mismatches"]),
        error=element("error"),
        error_ftz=read["error_ftz"],
        share=element("share"),
        deviation=read["deviation"],
        broken={kind: (int(read[kind.value]), int(read[f"{kind.value}_row"])) for kind in _SHOWN if read[kind.value]},
    )


def _figures(found: FigureTable, names: Sequence[str]) -> Any:
    """Several figures of every row, float64 [names, rows]."""
    return found.figures[[PLACES[name] for name in names]]
