"""Reduction of a table of rows to its figures, on the table's device; the host reads all of them at once.

On a GPU that other processes use too, each read waits for their turns. A table of millions of rows costs one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from oracles.reference import RowClass
from softcheck.contract import FindingKind
from softcheck.judge.device.table import FigureTable

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of the rows of a table that are kept: rows that are right, or broken beyond doubt and many.

    A peak is (value, row, column); its value is negative if no row shows one. ``broken`` maps each broken promise to
    the number of its elements (of its rows, for sums) and the row that shows the worst.
    """

    chosen: torch.Tensor
    """Rows that are left to the numpy judge: bool, [rows], on the table's device."""
    left: int
    """Number of chosen rows."""
    elements: int
    error_sum: float
    flushed: int
    special_rows: int
    fully_masked_rows: int
    special_mismatches: int
    error: tuple[float, int, int]
    error_ftz: float
    """The largest error in a format without subnormals; negative if no row shows one."""
    share: tuple[float, int, int]
    deviation: float
    """Largest distance of a sum from 1; negative if there is none."""
    broken: dict[FindingKind, tuple[int, int]]


def summarise(found: FigureTable, numbers: torch.Tensor, *, margin: float, most_broken: int) -> Summary:
    """Chooses rows for the numpy judge and reduces the figures of the other rows.

    ``numbers``, int64 [rows], are the rows' own numbers. Rows in doubt are chosen (``margin`` is relative, of the
    table's own error), and broken rows too if they are at most ``most_broken``.
    """
    share_of_sum = found["deviation"].abs() / found["allowed"]
    doubtful = (found["doubtful"] > 0) | ((share_of_sum - 1).abs() <= max(margin, 2.0**-14))
    bad_sum = share_of_sum > 1
    mismatched = _stacked(found, ("nan_mismatch", "inf_mismatch", "masked_not_zero")).sum(dim=0) > 0
    broken = mismatched | bad_sum | (found["exceeding"] > 0) | (found["out_of_range"] > 0)
    few = (broken & ~doubtful).sum() <= most_broken
    chosen = doubtful | (broken & few)
    kept = ~chosen
    bad_sum, broken = bad_sum & kept, broken & kept
    special = (found["row_class"] > 0) & kept
    deviations = found["deviation"].abs().nan_to_num(nan=-1.0)

    # Few operations, each on several figures: on a table of few rows the number of operations takes the time.
    flags = torch.stack([chosen, special, (found["row_class"] == RowClass.FULLY_MASKED) & kept, special & mismatched])
    sums = torch.where(kept, _stacked(found, _SUMS), 0.0).sum(dim=1)
    values = torch.where(kept, _stacked(found, _PEAKS), -1.0)
    places = values.argmax(dim=1, keepdim=True)
    columns = _stacked(found, [f"{name}_column" for name in _PEAKS]).gather(1, places)
    counts = torch.cat([bad_sum[None], _stacked(found, [count for count, _ in _KINDS.values()])])
    sizes = torch.cat([(deviations / found["allowed"])[None], _stacked(found, [size for _, size in _KINDS.values()])])
    worst = torch.where(broken & (counts > 0), sizes.nan_to_num(nan=0.0), -1.0).argmax(dim=1)

    # Numbers of elements and rows are far below 2^53.
    parts = {
        ("left", "special", "fully_masked", "mismatches"): flags.sum(dim=1),
        _SUMS: sums,
        ("deviation",): torch.where(kept, deviations, -1.0).max()[None],
        _PEAKS: values.gather(1, places)[:, 0],
        tuple(f"{name}_row" for name in _PEAKS): numbers[places[:, 0]],
        tuple(f"{name}_column" for name in _PEAKS): columns[:, 0],
        ("error_ftz",): torch.where(kept, found["error_ftz"], -1.0).max()[None],
        tuple(kind.value for kind in _SHOWN): torch.where(broken, counts, 0.0).sum(dim=1),
        tuple(f"{kind.value}_row" for kind in _SHOWN): numbers[worst],
    }
    read = dict(
        zip(chain(*parts), torch.cat([part.to(torch.float64) for part in parts.values()]).tolist(), strict=True)
    )

    def peak(name: str) -> tuple[float, int, int]:
        if not read[name] >= 0:
            return -1.0, 0, 0
        return read[name], int(read[f"{name}_row"]), int(read[f"{name}_column"])

    return Summary(
        chosen=chosen,
        left=int(read["left"]),
        elements=int(read["comparable"]),
        error_sum=read["error_sum"],
        flushed=int(read["flushed"]),
        special_rows=int(read["special"]),
        fully_masked_rows=int(read["fully_masked"]),
        special_mismatches=int(read["mismatches"]),
        error=peak("error"),
        error_ftz=read["error_ftz"],
        share=peak("share"),
        deviation=read["deviation"],
        broken={kind: (int(read[kind.value]), int(read[f"{kind.value}_row"])) for kind in _SHOWN if read[kind.value]},
    )


def _stacked(found: FigureTable, names: Sequence[str]) -> torch.Tensor:
    """Several figures of every row, float64 [names, rows]."""
    return torch.stack([found[name] for name in names])
