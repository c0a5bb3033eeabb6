"""Softmax over the columns of a matrix, exp(x - max x) / sum exp(x - max x) in each row, its logarithm, and the log-sum-exp of each row.

Errors of a log-softmax are counted in ulp(max(|r|, 1)): the sum is at least 1, and whoever rounds it to float32 knows its logarithm to
2^-24 and no better, however small it is. Those of a log-sum-exp are in ulp(max(|m| + L, 1)), m the maximum and L the logarithm of the sum:
m and L cancel where their signs differ.

Everything here that depends on torch imports it when it is called, so that the parent process need not.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles import ball, double_double, float64
from oracles._enclosure import Ball
from oracles.arrays import Array, largest, module_of
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.numbers.expression import Number
from softcheck.numbers.model import EXACT
from softcheck.operations import bounds, gradient, rules
from softcheck.operations.block import rows_of
from softcheck.operations.causal import masked_by_position
from softcheck.operations.formula import from_formula, of_one
from softcheck.operations.masks import HIDING, MASKING, with_masks
from softcheck.operations.operation import Exact, Operation
from softcheck.operations.options import capped, in_base, scaled

if TYPE_CHECKING:
    import torch


def _everyday(fmt: Format) -> Any:
    return double_double if fmt == FLOAT64 else float64


def _prove(values: Values, _fmt: Format, fully_masked: FullyMasked) -> Reference:
    # Equal rows are computed once.
    rows, where = np.unique(values, axis=0, return_inverse=True)
    return rows_of(ball.softmax(rows, fully_masked=fully_masked), where.ravel())


def _on_device(x: "torch.Tensor", fmt: Format) -> Exact:
    import torch

    from softcheck.operations.torch_bounds import summing_error

    columns = x.shape[1]
    # An element of at least half a subnormal is no farther from the maximum than this.
    farthest = math.log(columns / fmt.least_subnormal) + 1
    uncertainty = (2 * summing_error(columns) + 2.0**-51 * farthest) * 2.0**fmt.precision
    return Exact(torch.softmax(x.to(torch.float64), dim=1), uncertainty)


def _torch() -> Any:
    import torch

    return torch


def _softmax(*, scale: float = 1.0, softcap: float = 0.0, causal: str = "", queries: float = 0) -> Operation:
    found = capped(scaled(SOFTMAX, scale), softcap, scale)
    found = found if found is SOFTMAX else replace(found, arguments=HIDING)
    return masked_by_position(found, causal, queries)


SOFTMAX = Operation(
    name="softmax",
    relations=("shifts", "permutations", "appended_masks"),
    answer=lambda values, fmt, masked: _everyday(fmt).softmax(values, fully_masked=masked),
    prove=_prove,
    bounds=lambda *given: bounds.bounds(*given),  # noqa: PLW0108 - looked up late: tests plant faults there
    allowed=bounds.softmax_bounds,
    rules=(*rules.NUMBERS, rules.ZERO_WHERE_MASKED, rules.in_range(0.0, 1.0), rules.ORDERED, rules.SUMS_TO_ONE),
    yardstick=lambda x: _torch().softmax(x, dim=-1),
    gradient=gradient.OF_SOFTMAX,
    parameters={"scale": 1.0, "softcap": 0.0, "causal": "", "queries": 0},
    with_parameters=_softmax,
    arguments=MASKING,
    with_named=with_masks,
    sum_sign=-1,
    on_device=_on_device,
)


def _log_softmax(
    *, scale: float = 1.0, softcap: float = 0.0, base: float = math.e, causal: str = "", queries: float = 0
) -> Operation:
    found = in_base(capped(scaled(LOG_SOFTMAX, scale), softcap, scale), base)
    return masked_by_position(found, causal, queries)


def _log_on_device(x: "torch.Tensor", fmt: Format) -> Exact:
    from softcheck.operations.torch_bounds import summing_error

    found = bounds.log_softmax(Number(x.double(), EXACT)).value
    return Exact(found, summing_error(x.shape[1]) * 2.0**fmt.precision)


LOG_SOFTMAX = replace(
    SOFTMAX,
    name="log_softmax",
    answer=lambda values, fmt, masked: _everyday(fmt).log_softmax(values, fully_masked=masked),
    prove=lambda values, _fmt, masked: ball.log_softmax(values, fully_masked=masked),
    bounds=bounds.of_values(bounds.log_softmax_bounds),
    allowed=bounds.log_softmax_bounds,
    rules=(*rules.NUMBERS, rules.in_range(-np.inf, 0.0), rules.ORDERED, rules.POWERS_SUM_TO_ONE),
    yardstick=lambda x: _torch().log_softmax(x, dim=-1),
    scale=of_one,
    scale_text="of max(|r|, 1)",
    parameters={"scale": 1.0, "softcap": 0.0, "base": math.e, "causal": "", "queries": 0},
    with_parameters=_log_softmax,
    probabilities=lambda outputs: module_of(outputs).exp(outputs),
    on_device=_log_on_device,
    gradient=gradient.OF_LOG_SOFTMAX,
)


def _sum_scale(values: Array, answers: Array, _fmt: Format) -> Array:
    top = largest(values)
    return module_of(values).clip(abs(top) + (answers - top), 1.0, None)


def _sum_on_device(x: "torch.Tensor", fmt: Format) -> Exact:
    from softcheck.operations.torch_bounds import of_rows

    found, top = bounds.logsumexp(Number(x.double(), EXACT)).value, largest(x.double())
    return of_rows(found.where(top.isfinite(), top), x.shape[1], fmt)


def _logsumexp(*, base: float = math.e) -> Operation:
    return in_base(LOGSUMEXP, base)


def _enclosed_sum(row: list[Ball]) -> list[Ball]:
    top = max(row)
    return [top + sum((x - top).exp() for x in row).log()]


LOGSUMEXP = from_formula(
    bounds.logsumexp,
    _enclosed_sum,
    lambda x: _torch().logsumexp(x, dim=-1, keepdim=True),
    special=lambda top: top,
    of_rows=True,
    scale=_sum_scale,
    scale_text="of max(|max x| + log-sum, 1)",
    allowed=bounds.logsumexp_bounds,
    parameters={"base": math.e},
    with_parameters=_logsumexp,
    arguments=MASKING,
    with_named=with_masks,
    sum_sign=1,
    on_device=_sum_on_device,
    # torch's own backward is a graph of single operations on the rounded answer.
    gradient=gradient.of_rows(
        lambda values, _: gradient.plain_terms(values), "|g| p", is_rounded=True, keeps_answer=True
    ),
)
