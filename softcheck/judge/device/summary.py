"""What a table of rows comes to: every figure reduced where it lies, and all of them read by the host at once.

On a GPU that other processes use too, each read waits for their turns; a table of millions of rows costs one.
"""

from dataclasses import dataclass

import torch

from oracles.reference import RowClass
from softcheck.contract import FindingKind
from softcheck.judge.device.table import Table

LARGEST_SHARE = 2.0**100
"""Beyond it float32 does not hold shares of a bound; the numpy judge describes the rows that show them."""

_KINDS = {
    FindingKind.ULP_EXCEEDS_BOUND: ("exceeding", "share"),
    FindingKind.NAN_MISMATCH: ("nan_mismatch", "nan_mismatch"),
    FindingKind.INF_MISMATCH: ("inf_mismatch", "inf_mismatch"),
    FindingKind.OUT_OF_RANGE: ("out_of_range", "range_size"),
    FindingKind.MASKED_NOT_ZERO: ("masked_not_zero", "masked_size"),
}
"""Counts of elements by kind, and the figure that makes a row its witness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of the rows of a table that are kept: those that are right, or broken beyond doubt and many.

    A peak is (value, row, column), its value negative where no row shows one; ``broken`` holds, for each broken promise, its
    elements (rows, for sums) and the row that shows the worst.
    """

    chosen: torch.Tensor
    """Rows that are left to the numpy judge: bool, [rows], where the table lies."""
    left: int
    """How many these are."""
    elements: int
    error_sum: float
    flushed: int
    special_rows: int
    fully_masked_rows: int
    special_mismatches: int
    error: tuple[float, int, int]
    error_ftz: float
    """In the row of ``error``."""
    share: tuple[float, int, int]
    deviation: float
    """Largest distance of a sum from 1, negative where there is none."""
    broken: dict[FindingKind, tuple[int, int]]


def summarise(found: Table, numbers: torch.Tensor, *, margin: float, most_broken: int) -> Summary:
    """Chooses the rows for the numpy judge and reduces the others' figures; ``numbers``, int64 [rows], are the rows' own.

    Chosen are rows in doubt (``margin``: relative, of the table's own error), and broken ones too if they are ``most_broken``
    at most.
    """
    share_of_sum = found["deviation"].abs() / found["allowed"]
    doubtful = (found["doubtful"] > 0) | ((share_of_sum - 1).abs() <= max(margin, 2.0**-14))
    bad_sum = share_of_sum > 1
    mismatched = (found["nan_mismatch"] + found["inf_mismatch"] + found["masked_not_zero"]) > 0
    broken = mismatched | bad_sum | (found["exceeding"] > 0) | (found["out_of_range"] > 0)
    few = (broken & ~doubtful).sum() <= most_broken
    chosen = doubtful | (broken & few)
    kept = ~chosen
    bad_sum, broken = bad_sum & kept, broken & kept
    special = (found["row_class"] > 0) & kept
    deviations = found["deviation"].abs().nan_to_num(nan=-1.0)

    figures: dict[str, torch.Tensor] = {
        "left": chosen.sum(),
        "elements": _sum(found["comparable"], kept),
        "error_sum": _sum(found["error_sum"], kept),
        "flushed": _sum(found["flushed"], kept),
        "special": special.sum(),
        "fully_masked": ((found["row_class"] == RowClass.FULLY_MASKED) & kept).sum(),
        "mismatches": (special & mismatched).sum(),
        "deviation": torch.where(kept, deviations, -1.0).max(),
    }
    for name in ("error", "share"):
        values = torch.where(kept, found[name], -1.0)
        place = values.argmax()
        figures |= {
            name: values[place],
            f"{name}_row": numbers[place],
            f"{name}_column": found[f"{name}_column"][place],
        }
        if name == "error":
            figures["error_ftz"] = found["error_ftz"][place]
    shown = {FindingKind.SUM_VIOLATION: (bad_sum.sum(), deviations / found["allowed"], bad_sum)}
    for kind, (count, size) in _KINDS.items():
        shown[kind] = (_sum(found[count], broken), found[size], broken & (found[count] > 0))
    for kind, (number, size_of, showing) in shown.items():
        worst = torch.where(showing, size_of.nan_to_num(nan=0.0), -1.0).argmax()
        figures |= {kind.value: number, f"{kind.value}_row": numbers[worst]}

    # Numbers of elements and rows are far below 2^53.
    values_read = torch.stack([figure.to(torch.float64) for figure in figures.values()]).tolist()
    read = dict(zip(figures, values_read, strict=True))

    def peak(name: str) -> tuple[float, int, int]:
        if not read[name] >= 0:
            return -1.0, 0, 0
        return read[name], int(read[f"{name}_row"]), int(read[f"{name}_column"])

    return Summary(
        chosen=chosen,
        left=int(read["left"]),
        elements=int(read["elements"]),
        error_sum=read["error_sum"],
        flushed=int(read["flushed"]),
        special_rows=int(read["special"]),
        fully_masked_rows=int(read["fully_masked"]),
        special_mismatches=int(read["mismatches"]),
        error=peak("error"),
        error_ftz=read["error_ftz"],
        share=peak("share"),
        deviation=read["deviation"],
        broken={kind: (int(read[kind.value]), int(read[f"{kind.value}_row"])) for kind in shown if read[kind.value]},
    )


def _sum(figure: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.where(rows, figure, 0.0).sum()
