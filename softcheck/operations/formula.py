"""An operation from its formula, which gives its answers and bounds; docs/adding_an_operation.md shows one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles._enclosure import Ball
from oracles.arrays import Array, largest, module_of, quiet
from oracles.ball import enclosed
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, stated
from softcheck.errors import UsageError
from softcheck.numbers.expression import Number
from softcheck.numbers.model import Model
from softcheck.operations.arithmetic import IN_FLOAT64
from softcheck.operations.bounds import Bounds, bounds_of
from softcheck.operations.operation import Exact, Operand, Operation, functions_of
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch


def of_one(_values: Array, answers: Array, _fmt: Format) -> Array:
    """Returns the size 1, so that errors are counted in ulp(max(|r|, 1))."""
    return module_of(answers).ones_like(answers)


@dataclass(frozen=True, slots=True)
class _Formula:
    formula: Callable[[Number], Number]
    enclosure: Callable[[list[Ball]], Sequence[Ball]]
    special: Callable[[Array], Array] | None
    of_rows: bool
    scale: Callable[[Array, Array, Format], Array]

    def answer(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            return self.prove(values, fmt, masked)
        with quiet(values):
            return stated(*self._with_special_rows(values, self._of(values, IN_FLOAT64), masked))

    def prove(self, values: Values, _fmt: Format, masked: FullyMasked) -> Reference:
        high, low, off = enclosed(values, self.enclosure, 1 if self.of_rows else values.shape[1])
        return stated(*self._with_special_rows(values, Number(high, IN_FLOAT64, off), masked), low)

    def bounds(self, values: Array, exact: Scaled, answers: Array, model: Model) -> Bounds:
        with quiet(values):
            found = self._of(values, model)
            error = module_of(values).where(abs(found.value) < math.inf, found.error + model.underflow, 0.0)
            return bounds_of(error, answers, exact, model)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        from softcheck.operations.torch_bounds import inverse_ulp

        values = x.double()
        answers, off = self._with_special_rows(values, self._of(values, IN_FLOAT64), "nan")
        size = abs(answers).maximum(self.scale(values, answers, fmt)).nan_to_num(0.0)
        return Exact(answers, (off * inverse_ulp(size, fmt, of_scale=True)).amax(dim=1))

    def _of(self, values: Array, model: Model) -> Number:
        x = Number.read(values, model)
        return self.formula(x) if values.shape[1] else x

    def _with_special_rows(self, values: Array, found: Number, masked: FullyMasked) -> tuple[Array, Array]:
        """The answers, and their errors: 0 of those that are not computed."""
        xp, top, answers = module_of(values), largest(values), found.value
        usual = xp.where(xp.isneginf(top) & (masked == "zero"), 0.0, math.nan)
        answers = xp.where(xp.isfinite(top), answers, usual if self.special is None else self.special(top))
        return answers, xp.where(xp.isfinite(top) & xp.isfinite(answers), found.error, 0.0)


def from_formula(
    formula: Callable[[Number], Number],
    enclosure: Callable[[list[Ball]], Sequence[Ball]],
    yardstick: "Callable[[torch.Tensor], torch.Tensor]",
    *,
    special: Callable[[Array], Array] | None = None,
    of_rows: bool = False,
    scale: Callable[[Array, Array, Format], Array] = of_one,
    **more: Any,
) -> Operation:
    """Returns the operation that a formula is of: [rows, columns] answers, or [rows, 1] if they are ``of_rows``.

    ``formula`` takes the matrix, and its errors are those that kernels may have. ``enclosure`` is the oracle that
    decides in doubt, from a row's logits to its answers, as balls of Arb. ``yardstick`` computes them as torch does.
    ``special`` takes the largest logits of rows, arrays or tensors, and gives the answers where these are NaN or
    infinite; without it they are NaN, or 0 for a hidden row if declared. ``more`` are fields of ``Operation``.

    Raises UsageError where formula and enclosure disagree on a small matrix.
    """
    fields: dict[str, Any] = {
        "name": formula.__name__,
        "outputs": (Operand("y", ("rows",) if of_rows else ("rows", "columns")),),
        "scale_text": "of max(|r|, 1)",
        **functions_of(_Formula(formula, enclosure, special, of_rows, scale)),
    }
    found = Operation(yardstick=yardstick, **{**fields, **more})
    values = np.random.default_rng(0).normal(scale=4.0, size=(4, 5))
    values[1, 0] = -np.inf
    for row, ours, proven in zip(
        values, found.answer(values, FLOAT32, "nan").values, found.prove(values, FLOAT32, "nan").values, strict=True
    ):
        if ours.shape != proven.shape or not np.allclose(ours, proven, rtol=1e-12, atol=1e-12, equal_nan=True):
            differ = f"the formula gives {ours} and the enclosure {proven}; one of them is wrong"
            raise UsageError(f"{found.name}: for the row {row} {differ}")
    return found
