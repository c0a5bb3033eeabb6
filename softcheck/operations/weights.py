"""Class weights of a cross-entropy as an argument of its call: one number for each column, the same for every row."""

from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Values
from softcheck.operations.drawn import of_columns

if TYPE_CHECKING:
    import torch

LARGEST = 4.0
"""The largest weight."""


def of_tensor(x: "torch.Tensor") -> "torch.Tensor":
    """The weights of a matrix's columns, in its dtype and exact in every one, [columns].

    They are multiples of 1/16 up to ``LARGEST``, drawn from the column's number; one of sixteen is 0. A column keeps its weight in a
    narrower matrix. Between the weights of a matrix that is not packed lie others.
    """
    import torch

    bits = of_columns(x.shape[1], x.device)
    sixteenths = torch.where(((bits >> 20) & 15) == 0, 0, 1 + ((bits >> 8) & 63))
    found = (sixteenths.to(torch.float64) / 16).to(x.dtype)
    return found if x.is_contiguous() else torch.stack([found, found + 1], dim=1)[:, 0]


def of_columns_in_float64(columns: int) -> Values:
    """The same weights in float64, [columns]."""
    import torch

    found: Values = of_tensor(torch.zeros(1, columns, dtype=torch.float64)).numpy()
    return np.ascontiguousarray(found)
