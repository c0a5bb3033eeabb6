"""Means and sums of losses: one answer for a matrix, which is made of each row of the case's matrix, so that rows stay independent.

A row of n columns is given to the function as a matrix of its own, R rows of n / R columns. R is 1 for a prime n, where the answer is one
row's loss alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oracles import loss
from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference, with_error
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.expression import like, module_of, quiet
from softcheck.operations.logsumexp import bounds_of
from softcheck.operations.operation import Exact
from softcheck.operations.row_gradient import RowTerms
from softcheck.operations.row_loss import Divisors, RowLoss, largest_terms, with_proven
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

REDUCTIONS = ("none", "mean", "sum")

_ROWS = (64, 32, 16, 13, 12, 11, 8, 7, 6, 5, 4, 3, 2)
_UNIT = 2.0**-53


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


class Reduced:
    """The mean or the sum of the losses of a matrix, as the functions of an operation."""

    def __init__(
        self, losses: RowLoss, reduction: str, torch_losses: "Callable[[RowLoss, torch.Tensor], torch.Tensor]"
    ) -> None:
        """Takes the losses of rows, ``mean`` or ``sum``, and torch's own function for the losses."""
        self.losses = losses
        self.is_mean = reduction == "mean"
        self._torch_losses = torch_losses

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        """The answers of matrices, [rows, 1]; NaN where a mean has no divisor."""
        rows, divisors = self._rows(values)
        part = self.losses.answer(rows, fmt, divisors)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            high = self._summed(part.high, len(values))
            off = self._summed(
                part.relative_error * np.abs(np.where(np.isfinite(part.high), part.high, 0.0)), len(values)
            )
            off += 2 * _UNIT * len(rows) / max(1, len(values)) * self._summed(np.abs(part.high), len(values))
            high, low, relative = with_error(high, np.zeros(high.shape), off)
        return Reference(high, low, np.zeros(high.shape, dtype=np.int64), relative, part.absolute_error)

    def prove(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """The same from the Arb oracle."""
        rows, divisors = self._rows(values)
        balls = self.losses.balls(rows, divisors)
        each = max(1, len(rows) // max(1, len(values)))
        proven = loss.reference([balls[first : first + each] for first in range(0, len(balls), each)])
        return with_proven(self.answer(values, fmt, masked), proven, np.zeros(len(values), dtype=np.bool_))

    def scale(self, values: Values, _answers: Values, _fmt: Format) -> Values:
        """The sizes of all terms, summed up as the losses are, at least 1."""
        rows, divisors = self._rows(values)
        found: Values = module_of(values).clip(self._summed(self.losses.scale(rows, divisors), len(values)), 1.0, None)
        return found

    def bounds(self, values: Values, exact: Scaled, answers: Values, constants: Model) -> Bounds:
        """The sum of the rows' bounds, in which each loss may be rounded to the format, and the sum's own roundings."""
        rows, divisors = self._rows(values)
        with quiet(values):
            sizes = abs(self.losses.in_float64(rows, divisors))
            error = self.losses.errors(rows, sizes, constants, divisors)
            if constants.rounds_result:
                # A loss is rounded before it is divided.
                error = error + exact.fmt.unit_roundoff * sizes + exact.fmt.least_subnormal / divisors[0]
            each = len(rows) // max(1, len(values))
            total = self._summed(error, len(values))
            total += constants.roundoff * ((each + 4) * self._summed(sizes, len(values)) + 2 * abs(answers))
        return bounds_of(total, answers, exact, constants)

    def gradient(self, values: Values, constants: Model) -> RowTerms:
        """The terms of the gradient, with a row of logits for each row of a matrix."""
        rows, divisors = self._rows(values)
        return self.losses.gradient(rows, constants, divisors)

    def undefined(self, values: Values, fmt: Format) -> Flags:
        """Rows of which nothing is demanded, [rows].

        One row of the matrix is such, or a mean has no divisor, or the terms of the losses overflow before they are divided.
        """
        rows, (first, _) = self._rows(values)
        lost = self.losses.undefined(rows, fmt) | ~module_of(first).isfinite(first[:, 0])
        parts = len(rows) // max(1, len(values))
        with quiet(values):
            sizes = self.losses.finite_sizes(rows).reshape(len(values), parts).sum(axis=1)
        found: Flags = lost.reshape(len(values), parts).any(axis=1) | (sizes > largest_terms(fmt))
        return found

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        """The answers where the matrices lie, [rows, 1]."""
        rows, divisors = self._rows(x.double())  # type: ignore[arg-type]
        found = self.losses.on_device(rows, fmt, divisors)  # type: ignore[arg-type]
        return Exact(self._summed(found.values, len(x)), found.uncertainty)  # type: ignore[arg-type]

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """Computes the answers as torch does, [rows, 1]."""
        import torch

        parts, width = batch_of(x.shape[1])
        rows = x.reshape(len(x) * parts, width)
        found = self._torch_losses(self.losses, rows)
        first, last = (
            torch.from_numpy(one).to(found)[:, 0] for one in self._divisors(rows.detach().double().cpu().numpy(), parts)
        )
        if self.losses.z_loss:
            plain = self._torch_losses(replace(self.losses, z_loss=0.0), rows)
            found = plain / first + (found - plain) / last
        else:
            found = found / first
        return found.view(len(x), parts).sum(dim=1, keepdim=True)

    def _rows(self, values: Values) -> tuple[Values, Divisors]:
        """The rows of all matrices, one behind the other, and their divisors."""
        parts, width = batch_of(values.shape[1])
        rows = values.reshape(len(values) * parts, width)
        return rows, self._divisors(rows, parts)

    def _divisors(self, rows: Values, parts: int) -> Divisors:
        """The weights of a matrix's targets, and their number, for each of its rows; infinite where these are 0."""
        xp = module_of(rows)
        ones = xp.ones_like(rows[:, :1])
        if not self.is_mean:
            return ones, ones
        terms = self.losses.terms(rows)
        counts = xp.where(terms.left_out, 0.0, ones)
        weights = like(rows, self.losses.weights(rows.shape[1]))
        weighing = counts * weights[terms.column] if rows.shape[1] else counts
        first, last = (self._of_matrices(one, parts) for one in (weighing, counts))
        return xp.where(first > 0, first, np.inf), xp.where(last > 0, last, np.inf)

    def _of_matrices(self, each: Values, parts: int) -> Values:
        """The sum of each matrix's rows, for each of its rows."""
        sums = self._summed(each, len(each) // parts)
        found: Values = module_of(each).broadcast_to(sums, (len(sums), parts)).reshape(-1, 1)
        return found

    @staticmethod
    def _summed(each: Values, matrices: int) -> Values:
        found: Values = each.reshape(matrices, len(each) // max(1, matrices)).sum(axis=1, keepdims=True)
        return found
