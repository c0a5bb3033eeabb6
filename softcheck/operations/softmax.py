"""Softmax over the columns of a matrix: exp(x - max x) / sum exp(x - max x) in each row.

Everything here that depends on torch imports it when it is called, so that the parent process need not.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oracles import ball, double_double, float64
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.operations import bounds
from softcheck.operations.capped import capped
from softcheck.operations.causal import masked_by_position
from softcheck.operations.gradient import Gradient, gradient_errors, softmax_second, softmax_size
from softcheck.operations.masks import HIDING, MASKING, with_masks
from softcheck.operations.operation import Limits, Operand, Operation
from softcheck.operations.rules import (
    FINITE_WHERE_DUE,
    NAN_WHERE_DUE,
    ORDERED,
    SUMS_TO_ONE,
    WITHIN_BOUND,
    ZERO_WHERE_MASKED,
    in_range,
)
from softcheck.operations.scaled import scaled
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch


def _answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
    if fmt == FLOAT64:
        return double_double.softmax(values, fully_masked=fully_masked)
    return float64.softmax(values, fully_masked=fully_masked)


def _prove(values: Values, _fmt: Format, fully_masked: FullyMasked) -> Reference:
    # Equal rows are computed once.
    rows, where = np.unique(values, axis=0, return_inverse=True)
    answer = ball.softmax(rows, fully_masked=fully_masked)
    relative = np.broadcast_to(answer.relative_error, answer.high.shape)
    where = where.ravel()
    return Reference(
        answer.high[where],
        answer.low[where],
        answer.exponent[where],
        relative[where],
        answer.absolute_error,
        answer.settled,
    )


def _bounds(values: Values, exact: Scaled, probabilities: Values, model: bounds.Model) -> bounds.Bounds:
    return bounds.bounds(values, exact, probabilities, model)


def _decimal(row: Values, column: int, _fmt: Format, fully_masked: FullyMasked) -> str:
    return ball.decimal(row, column, fully_masked=fully_masked)


def _on_device(
    x: "torch.Tensor", fmt: Format, model: bounds.Model | None, *, strict: bool = False, scale: float = 1.0
) -> Limits:
    from softcheck.operations.torch_bounds import softmax_limits

    return softmax_limits(x, fmt, model, strict=strict, scale=scale)


def _yardstick(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.softmax(x, dim=-1)


def _with_parameters(*, scale: float = 1.0, softcap: float = 0.0, causal: str = "", queries: float = 0) -> Operation:
    found = capped(scaled(SOFTMAX, scale), softcap, scale)
    found = found if found is SOFTMAX else replace(found, arguments=HIDING)
    return masked_by_position(found, causal, queries)


SOFTMAX = Operation(
    name="softmax",
    operands=(Operand("x", ("rows", "columns")),),
    outputs=(Operand("y", ("rows", "columns")),),
    families=(
        *(
            "huge",
            "shifted",
            "padding",
            "special",
            "widths",
            "finfo-min",
            "subnormal-logits",
            "subnormal-results",
            "ties",
        ),
        *("one-hot", "ramp", "normal", "uniform", "negative", "positive", "sorted", "one-column", "empty", "layout"),
        *("sources", "wide", "rows", "temperature", "format-specials", "random-bits", "cancellation"),
    ),
    relations=("shifts", "permutations", "appended_masks"),
    answer=_answer,
    prove=_prove,
    decimal=_decimal,
    bounds=_bounds,
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, ZERO_WHERE_MASKED, in_range(0.0, 1.0), ORDERED, SUMS_TO_ONE),
    yardstick=_yardstick,
    gradient=Gradient(errors=gradient_errors, scale="y (|g| + sum y |g|)", size=softmax_size, second=softmax_second),
    parameters={"scale": 1.0, "softcap": 0.0, "causal": "", "queries": 0},
    with_parameters=_with_parameters,
    arguments=MASKING,
    with_named=with_masks,
    on_device=_on_device,
)
