"""Logarithm of the softmax over the columns of a matrix: x - max x - log(sum exp(x - max x)) in each row.

The bound is derived in docs/bounds.md, section 19. With d_j = max x - x_j, L = log(sum exp(-d)), C the logarithmic error of the sum
(the softmax's, without the division's), rho the roundoff of the type computed in, and c the exponent's error per unit of d:

    E_j = c d_j + C + rho (3 + 6 L) + 2 rho |r_j|
    |y_j - r_j| <= E_j + tau + half an ulp of |r_j| + E_j, if the result is rounded to a narrower format

Errors are counted in ulp(max(|r|, 1)): the sum is at least 1, and whoever rounds it to float32 knows its logarithm to 2^-24
and no better, however small it is.
"""

from typing import TYPE_CHECKING

import numpy as np

from oracles import ball, double_double, float64
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.operations.bounds import LARGEST_EXPONENT, Bounds, Model, logarithmic_errors
from softcheck.operations.operation import Operand, Operation
from softcheck.operations.rules import (
    FINITE_WHERE_DUE,
    NAN_WHERE_DUE,
    ORDERED,
    POWERS_SUM_TO_ONE,
    WITHIN_BOUND,
    in_range,
)
from softcheck.operations.softmax import SOFTMAX
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_LOGARITHM, _NEXT_TO_ONE = 6.0, 3.0
"""Relative and absolute error of a logarithm in rho. lg2.approx is within 2^-22 absolutely for arguments from 0.5 to 2 and relatively
elsewhere (PTX ISA), which is 4 rho of base 2 and 2.8 of base e; the product with log(2) rounds twice. Logarithms of libraries
are within 1 ULP, 2 rho."""

_SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""

_SUMMED = 2.0**-50
"""Relative error of float64's own exponentials of the outputs, and of their sum."""


def _answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
    if fmt == FLOAT64:
        return double_double.log_softmax(values, fully_masked=fully_masked)
    return float64.log_softmax(values, fully_masked=fully_masked)


def _prove(values: Values, fully_masked: FullyMasked) -> Reference:
    return ball.log_softmax(values, fully_masked=fully_masked)


def _decimal(row: Values, column: int, fully_masked: FullyMasked) -> str:
    return ball.log_decimal(row, column, fully_masked=fully_masked)


def _bounds(values: Values, exact: Scaled, logarithms: Values, model: Model) -> Bounds:
    fmt, columns = exact.fmt, values.shape[1]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        probabilities = np.exp(logarithms)
        _, weighted = logarithmic_errors(values, probabilities, model)
        top = values.max(axis=1, keepdims=True)
        of_exponent = model.exponent * (top - values)
        if model.rounds_logits:
            of_exponent += model.per_logit * (np.abs(values) + np.abs(top))
        of_sum = (weighted + model.summing(columns))[:, None]
        of_logarithm = model.roundoff * (_NEXT_TO_ONE + _LOGARITHM * -logarithms.max(axis=1, keepdims=True))
        size = np.abs(logarithms)
        error = (of_exponent + of_logarithm + 2 * model.roundoff * size) * _SECOND_ORDER + of_sum + model.underflow
        masked = np.isneginf(values)
        rounding = np.where(masked, 0.0, _half_ulp(size + error, fmt))
        total = error + rounding if model.rounds_result else error
        total[masked] = 0.0
        sums = (probabilities * np.expm1(np.minimum(total, LARGEST_EXPONENT))).sum(axis=1) + _SUMMED
        np.minimum(sums, columns + 1.0, out=sums)
        elements = np.minimum(total / exact.ulp, np.finfo(np.float64).max)
    return Bounds(elements, rounding / exact.ulp, model.rounds_result, sums)


def _half_ulp(size: Values, fmt: Format) -> Values:
    """Half the spacing of a format's values at a size."""
    exponent = np.maximum(np.frexp(np.minimum(size, fmt.max))[1] - 1, fmt.min_exponent)
    half: Values = np.ldexp(0.5, exponent - (fmt.precision - 1))
    return half


def _yardstick(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.log_softmax(x, dim=-1)


LOG_SOFTMAX = Operation(
    name="log_softmax",
    operands=(Operand("x", ("rows", "columns")),),
    outputs=(Operand("y", ("rows", "columns")),),
    families=SOFTMAX.families,
    relations=SOFTMAX.relations,
    answer=_answer,
    prove=_prove,
    decimal=_decimal,
    bounds=_bounds,
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, in_range(-np.inf, 0.0), ORDERED, POWERS_SUM_TO_ONE),
    yardstick=_yardstick,
    least_scale=1.0,
    probabilities=np.exp,
)
