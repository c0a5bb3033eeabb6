"""Targets of a cross-entropy as an argument of its call: a column of each row, chosen by the row's own bits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from softcheck.operations.drawn import finite, of_rows
from softcheck.operations.operation import Arguments

if TYPE_CHECKING:
    import torch


def of_tensor(x: "torch.Tensor", ignore_index: float | None) -> "torch.Tensor":
    """The targets of a matrix's rows, int64 [rows]: 0 without columns.

    Of eight rows four have a random column, and one each the first, the last, the largest and the smallest logit's. A row of two
    columns and the same row turned round have one column, so that all pairs together show each pair with each target. Where an
    ``ignore_index`` is given, one row of sixteen has that.
    """
    import torch

    rows, columns = x.shape
    if not columns:
        return torch.zeros(rows, dtype=torch.int64, device=x.device)
    numbers, drawn = finite(x), of_rows(x)
    kind, place = (drawn >> 8) & 7, ((drawn >> 20) & 0x7FFFFFFF) % columns
    choices = (
        torch.zeros_like(place),
        torch.full_like(place, columns - 1),
        numbers.argmax(dim=1),
        numbers.argmin(dim=1),
    )
    for number, choice in enumerate(choices):
        place = torch.where(kind == number, choice, place)
    if columns == 2:
        drawn ^= of_rows(x.flip(1))
        place = (drawn >> 20) & 1
    if ignore_index is not None:
        place = torch.where(((drawn >> 11) & 15) == 0, int(ignore_index), place)
    return place


def of_values(values: Values, ignore_index: float | None) -> NDArray[np.int64]:
    """The same targets, for a matrix's values in float64."""
    import torch

    found: NDArray[np.int64] = of_tensor(torch.from_numpy(np.ascontiguousarray(values)), ignore_index).numpy()
    return found


def targets(ignore_index: float | None) -> Arguments:
    """The arguments of a cross-entropy with this index of rows to be ignored, if any."""

    def make(x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
        import torch

        if "target" not in names:
            return {}
        found = of_tensor(x, ignore_index)
        if x.is_contiguous():
            return {"target": found}
        # Between the targets of a strided matrix lie others, which are columns too.
        return {"target": torch.stack([found, (found.clamp(min=0) + 1) % x.shape[1]], dim=1)[:, 0]}

    return Arguments(
        words={"target targets label labels y t tgt ys": ("target",)},
        make=make,
        trial=lambda x, _names: x,
    )
