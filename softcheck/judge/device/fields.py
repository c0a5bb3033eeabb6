"""The figures that a table holds of every row, on the device or copied to the host."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

FIELDS = (
    "row",
    "special",
    "fully_masked",
    "comparable",
    "error_sum",
    "flushed",
    "doubtful",
    "exceeding",
    "out_of_range",
    "nan_mismatch",
    "inf_mismatch",
    "masked_not_zero",
    "deviation",
    "allowed",
    "range_size",
    "masked_size",
    "error",
    "share",
    "error_ftz",
    "error_column",
    "error_logit",
    "error_output",
    "share_column",
    "share_logit",
    "share_output",
)
"""Figures per row, all float64, in the order in which the kernel stores them.

``error``, ``share`` and ``error_ftz`` are maxima, -1 if no element has one. ``deviation`` is the outputs' sum - 1, NaN
if there is none. ``masked_size`` and ``range_size`` are the largest distances of such elements from 0 or [0, 1].
``row`` is the row's own number. ``error_column`` and ``share_column`` are the columns of these maxima, beside the bit
patterns of their logits and outputs as integers. The other figures are counts: ``special`` is 1 for rows whose answer
follows a convention, ``fully_masked`` for those of -inf alone.
"""

PLACES = {name: place for place, name in enumerate(FIELDS)}

MORE = 3
"""Rows tabulated after the counted ones: those of the largest figures, which a scan lists there."""
FEW_ROWS = 256
"""Rows left by a scan for which a table is prepared before their number is known."""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Figures of some rows: ``figures`` is float64 [len(FIELDS), rows], a tensor of torch's or an array of numpy's."""

    figures: Any

    def __getitem__(self, field: str) -> Any:
        """One figure of every row, float64 [rows]; KeyError for a name that is not in FIELDS."""
        if field not in PLACES:
            raise KeyError(f"no figure {field!r}; expected one of: {', '.join(FIELDS)}")
        return self.figures[PLACES[field]]

    @property
    def library(self) -> Any:
        """The module whose functions take these figures: numpy or torch."""
        return np if isinstance(self.figures, np.ndarray) else torch

    def rows(self, chosen: Any) -> "FigureTable":
        """Returns some of the rows, or all in another order."""
        return FigureTable(self.figures[:, chosen])
