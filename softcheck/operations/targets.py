"""Arguments of a cross-entropy: targets, a column of each row by the row's own bits, and class weights, one number for each column, and the rows of a mean."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles.arrays import Array, module_of
from oracles.formats import Values
from softcheck.operations.drawn import finite, of_columns, of_rows
from softcheck.operations.operation import Arguments, Named, Operand, of_matrix

if TYPE_CHECKING:
    import torch


_ROWS = (64, 32, 16, 13, 12, 11, 8, 7, 6, 5, 4, 3, 2)

_rows: list[int] = []
"""The number of rows that is asked for, if any."""


@contextmanager
def in_rows(rows: int) -> Iterator[None]:
    """Makes matrices of so many rows of each row whose columns can be cut so."""
    _rows.append(rows)
    try:
        yield
    finally:
        _rows.pop()


def batch_of(columns: int) -> tuple[int, int]:
    """The matrix that is made of a row of so many columns: the most rows of at least as many columns, unless ``in_rows`` asks for others."""
    if _rows and columns % _rows[-1] == 0:
        return _rows[-1], columns // _rows[-1]
    rows = next((rows for rows in _ROWS if columns % rows == 0 and columns // rows >= rows), 1)
    return rows, columns // rows


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
        drawn = drawn + of_rows(x.flip(1))
        place = (drawn >> 20) & 1
    if ignore_index is not None:
        place = torch.where(((drawn >> 11) & 15) == 0, int(ignore_index), place)
    return place


LARGEST_WEIGHT = 4.0


def weights_of(x: "torch.Tensor") -> "torch.Tensor":
    """The class weights of a matrix's columns, in its dtype and exact in every one, [columns].

    They are multiples of 1/16 up to ``LARGEST_WEIGHT``, drawn from the column's number; one of sixteen is 0. A column keeps its weight in a
    narrower matrix. Between the weights of a matrix that is not packed lie others.
    """
    import torch

    bits = of_columns(x.shape[1], x.device)
    sixteenths = torch.where(((bits >> 20) & 15) == 0, 0, 1 + ((bits >> 8) & 63))
    found = (sixteenths.to(torch.float64) / 16).to(x.dtype)
    return found if x.is_contiguous() else torch.stack([found, found + 1], dim=1)[:, 0]


def weights_in_float64(columns: int) -> Values:
    """The same weights in float64, [columns]."""
    import torch

    found: Values = weights_of(torch.zeros(1, columns, dtype=torch.float64)).numpy()
    return np.ascontiguousarray(found)


UNTRIED = "undefined"
"""The promise that there is never a target that is no column, in place of a loss for one."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of a cross-entropy: which of them are ignored, and which are no columns."""

    ignored: int | None = None
    """The target of rows that are to be ignored; None if there is none."""
    invalid: str = ""
    """The loss of rows whose target is no column: "nan", "zero", or none where it is empty. Where it is promised, one row of sixteen has such a target."""
    named: Named = field(default_factory=dict)
    """The targets that a case names in place of those drawn."""

    def of_tensor(self, x: "torch.Tensor") -> "torch.Tensor":
        """The targets of a matrix's rows, int64 [rows]."""
        import torch

        given = of_matrix(self.named, "target", x)
        if given is not None:
            return given
        found = of_tensor(x, self.ignored)
        if not self.invalid or not x.shape[1]:
            return found
        drawn, columns = of_rows(x), x.shape[1]
        # The last becomes a column where it is cast to 32 bits.
        wrong = torch.tensor([-1, columns, -columns - 1, columns + 1000, 2**32], device=x.device)
        return torch.where(((drawn >> 15) & 15) == 0, wrong[(drawn >> 20) % len(wrong)], found)

    def of_values(self, values: Array) -> Array:
        """The same targets, for a matrix's values in float64, an array or a tensor."""
        import torch

        if isinstance(values, np.ndarray):
            return self.of_tensor(torch.from_numpy(np.ascontiguousarray(values))).numpy()
        return self.of_tensor(values)

    def left_out(self, index: Any, columns: int) -> Any:
        """True, in an array or a tensor, for targets that are no columns, or that are to be ignored though they are columns."""
        found = (index < 0) | (index >= columns)
        return found if self.ignored is None else found | (index == self.ignored)

    def loss_without(self, index: Array) -> Array | float:
        """The losses of rows whose target is left out: 0 if it is to be ignored, else as promised."""
        if self.invalid != "nan":
            return 0.0
        return np.nan if self.ignored is None else module_of(index).where(index != self.ignored, np.nan, 0.0)

    def arguments(self, *, with_weights: bool) -> Arguments:
        """The arguments of a cross-entropy with these targets."""

        def make(x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
            import torch

            made: dict[str, torch.Tensor] = {"weight": weights_of(x)} if "weight" in names else {}
            if "head" in names:
                made["head"] = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
            if "target" in names:
                found = self.of_tensor(x if x.dim() == 2 else x.reshape(-1, x.shape[-1])).view(x.shape[:-1])
                # Between the targets of a strided matrix lie others, which are columns too.
                beside = (found.clamp(min=0) + 1) % max(1, x.shape[-1])
                made["target"] = found if x.is_contiguous() else torch.stack([found, beside], dim=-1)[..., 0]
            return made

        words: dict[str, tuple[str, ...]] = {
            "target targets label labels y t tgt ys index indices token token_ids": ("target",)
        }
        return Arguments(
            words=words
            | ({_WEIGHTS: ("weight", "weight.float()")} if with_weights else {})
            # A call that holds a head implies the operation with one.
            | {"head": ("head",)},
            make=make,
            trial=lambda x, _names: x,
            operands=(Operand("weight", ("columns",)), Operand("head", ("columns", "columns"))),
        )


_WEIGHTS = "weight weights class_weight class_weights ce_weight w"
