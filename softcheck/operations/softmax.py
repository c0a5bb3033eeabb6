"""Softmax over the columns of a matrix: exp(x - max x) / sum exp(x - max x) in each row.

Everything here that depends on torch imports it when it is called, so that the parent process need not.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from oracles import ball, double_double, float64
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.operations import bounds
from softcheck.operations.operation import Limits, Operation
from softcheck.operations.rules import (
    FINITE_WHERE_DUE,
    NAN_WHERE_DUE,
    ORDERED,
    SUMS_TO_ONE,
    WITHIN_BOUND,
    ZERO_WHERE_MASKED,
    in_range,
)
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_NEAR = 1.0 + 2.0**-46
"""Within this factor below a power of two the larger ULP is taken: torch's float64 softmax may lie on the wrong side."""
_VANISHED = 800.0


def _answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
    if fmt == FLOAT64:
        return double_double.softmax(values, fully_masked=fully_masked)
    return float64.softmax(values, fully_masked=fully_masked)


def _prove(values: Values, fully_masked: FullyMasked) -> Reference:
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


def _on_device(x: "torch.Tensor", fmt: Format, model: bounds.Model | None) -> Limits:
    import torch

    logits = x.to(torch.float64)
    exact = torch.softmax(logits, dim=1)
    # 1 / ulp(r), a power of two, from the exponent field of r.
    exponent = ((exact * _NEAR).view(torch.int64) >> 52) - 1023
    exponent.clamp_(min=fmt.min_exponent)
    per_ulp = ((1023 + fmt.precision - 1 - exponent) << 52).view(torch.float64)
    if model is None:
        return Limits(exact, per_ulp, None)
    # The formula of softcheck.operations.bounds, in the same order.
    longest = bounds.depth(x.shape[1], model.lanes)
    additions = longest * model.addition + x.shape[1] * model.underflow + model.denominator
    distance = (logits.amax(dim=1, keepdim=True) - logits).clamp(max=_VANISHED)
    errors = model.exponent * distance + model.exponential * (distance > 0)
    weighted = torch.log1p((exact * torch.expm1(errors)).sum(dim=1, keepdim=True))
    common = weighted + (additions + model.division + longest * model.rescale)
    errors += common
    limit = torch.expm1(errors).mul_(exact).mul_(per_ulp)
    limit += per_ulp * model.underflow * torch.exp(common - weighted)
    if model.rounds_result:
        limit += torch.where(limit > 0.5, torch.exp(errors), 0.5 + 0.5 * errors)
    # A masked element is exactly 0.
    return Limits(exact, per_ulp, torch.minimum(limit, 2.0 * per_ulp).masked_fill_(logits == -math.inf, 0.0))


def _yardstick(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.softmax(x, dim=-1)


SOFTMAX = Operation(
    name="softmax",
    answer=_answer,
    prove=_prove,
    bounds=_bounds,
    on_device=_on_device,
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, ZERO_WHERE_MASKED, in_range(0.0, 1.0), ORDERED, SUMS_TO_ONE),
    yardstick=_yardstick,
    elements_moved=lambda rows, columns: 2 * rows * columns,
)
