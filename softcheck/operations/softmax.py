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
from oracles.arrays import Array, largest, module_of
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, with_error
from softcheck.numbers.expression import Number
from softcheck.operations import bounds, gradient, rules
from softcheck.operations.block import rows_of
from softcheck.operations.causal import masked_by_position
from softcheck.operations.masks import HIDING, MASKING, with_masks
from softcheck.operations.operation import Exact, Operand, Operation, as_they_are
from softcheck.operations.options import capped, in_base, scaled

if TYPE_CHECKING:
    import torch

_SUMMED = 2.0**-104
"""Relative error of the sum of two numbers as two float64, generously."""


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


_NUMBERS = (rules.WITHIN_BOUND, rules.NAN_WHERE_DUE, rules.FINITE_WHERE_DUE)

SOFTMAX = Operation(
    name="softmax",
    operands=(Operand("x", ("rows", "columns")),),
    outputs=(Operand("y", ("rows", "columns")),),
    families=(
        *("huge", "shifted", "padding", "special", "widths", "finfo-min", "subnormal-logits", "subnormal-results"),
        *("ties", "one-hot", "ramp", "normal", "uniform", "negative", "positive", "sorted", "one-column", "empty"),
        *("layout", "sources", "wide", "rows", "temperature", "format-specials", "random-bits", "cancellation"),
    ),
    relations=("shifts", "permutations", "appended_masks"),
    answer=lambda values, fmt, masked: _everyday(fmt).softmax(values, fully_masked=masked),
    prove=_prove,
    bounds=lambda *given: bounds.bounds(*given),  # noqa: PLW0108 - looked up late: tests plant faults there
    allowed=bounds.softmax_bounds,
    rules=(*_NUMBERS, rules.ZERO_WHERE_MASKED, rules.in_range(0.0, 1.0), rules.ORDERED, rules.SUMS_TO_ONE),
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

    found = bounds.log_softmax(Number(x.double(), bounds.EXACT)).value
    return Exact(found, summing_error(x.shape[1]) * 2.0**fmt.precision)


def of_one(_values: Array, answers: Array, _fmt: Format) -> Array:
    """Returns the size 1, so that errors are counted in ulp(max(|r|, 1))."""
    return module_of(answers).ones_like(answers)


LOG_SOFTMAX = replace(
    SOFTMAX,
    name="log_softmax",
    answer=lambda values, fmt, masked: _everyday(fmt).log_softmax(values, fully_masked=masked),
    prove=lambda values, _fmt, masked: ball.log_softmax(values, fully_masked=masked),
    bounds=bounds.of_values(bounds.log_softmax_bounds),
    allowed=bounds.log_softmax_bounds,
    rules=(*_NUMBERS, rules.in_range(-np.inf, 0.0), rules.ORDERED, rules.POWERS_SUM_TO_ONE),
    yardstick=lambda x: _torch().log_softmax(x, dim=-1),
    scale=of_one,
    scale_text="of max(|r|, 1)",
    parameters={"scale": 1.0, "softcap": 0.0, "base": math.e, "causal": "", "queries": 0},
    with_parameters=_log_softmax,
    probabilities=lambda outputs: module_of(outputs).exp(outputs),
    on_device=_log_on_device,
    gradient=gradient.OF_LOG_SOFTMAX,
)


def added(number: Values, high: Values, low: Values) -> tuple[Values, Values]:
    """Returns ``number + (high + low)`` as two float64, off by ``_SUMMED`` of the terms (Knuth, TAOCP 2, 4.2.2).

    A sum that is not finite has no second part.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = number + high
        part = total - number
        rest = (number - (total - part)) + (high - part) + low
        rounded = total + rest
        remainder = rest - (rounded - total)
    is_finite = np.isfinite(rounded)
    return np.where(is_finite, rounded, total), np.where(is_finite, remainder, 0.0)


def of_logarithms(values: Values, logarithms: Reference, number: Values) -> Reference:
    """Returns ``number + L`` for rows' ``number``, [rows, 1], from the exact log-softmax, whose value at the maximum is -L.

    Rows with a NaN give NaN. Rows with a +inf, and others without a finite number, give ``number``.
    """
    rows = np.arange(len(values))
    columns = values.argmax(axis=1) if values.shape[1] else np.zeros(len(values), dtype=np.intp)

    def at_maximum(array: Values) -> Values:
        return array[rows, columns][:, None] if values.shape[1] else np.zeros((len(values), 1))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        log_high = -at_maximum(np.ldexp(logarithms.high, logarithms.exponent))
        log_low = -at_maximum(np.ldexp(logarithms.low, logarithms.exponent))
        high, low = added(number, log_high, log_low)
        size = np.abs(number) + np.abs(log_high)
        error = np.broadcast_to(logarithms.relative_error, values.shape)
        off = at_maximum(error) * np.abs(log_high) + _SUMMED * size * (log_high != 0) * (number != 0)
        high, low, relative = with_error(high, low, off)
    ordinary = np.isfinite(number) & np.isfinite(log_high)
    # The sum itself, where it leaves float64's range, is infinite for every format.
    high = np.where(ordinary, high, np.where(np.isnan(largest(values)), np.nan, number))
    low = np.where(ordinary & np.isfinite(high), low, 0.0)
    relative = np.where(ordinary & np.isfinite(high), relative, 0.0)
    exponent = np.zeros(high.shape, dtype=np.int64)
    return Reference(high, low, exponent, relative, logarithms.absolute_error, logarithms.settled)


def _sum_scale(values: Array, answers: Array, _fmt: Format) -> Array:
    top = largest(values)
    return module_of(values).clip(abs(top) + (answers - top), 1.0, None)


def _sum_on_device(x: "torch.Tensor", fmt: Format) -> Exact:
    from softcheck.operations.torch_bounds import of_rows

    found, top = bounds.logsumexp(Number(x.double(), bounds.EXACT)).value, largest(x.double())
    return of_rows(found.where(top.isfinite(), top), x.shape[1], fmt)


def _logsumexp(*, base: float = math.e) -> Operation:
    return in_base(LOGSUMEXP, base)


LOGSUMEXP = replace(
    LOG_SOFTMAX,
    name="logsumexp",
    outputs=(Operand("y", ("rows",)),),
    relations=(),
    answer=lambda values, fmt, _masked: of_logarithms(values, LOG_SOFTMAX.answer(values, fmt, "nan"), largest(values)),
    prove=lambda values, fmt, _masked: of_logarithms(values, LOG_SOFTMAX.prove(values, fmt, "nan"), largest(values)),
    bounds=bounds.of_values(bounds.logsumexp_bounds),
    allowed=bounds.logsumexp_bounds,
    rules=_NUMBERS,
    yardstick=lambda x: _torch().logsumexp(x, dim=-1, keepdim=True),
    scale=_sum_scale,
    scale_text="of max(|max x| + log-sum, 1)",
    parameters={"base": math.e},
    with_parameters=_logsumexp,
    sum_sign=1,
    probabilities=as_they_are,
    on_device=_sum_on_device,
    # torch's own backward is a graph of single operations on the rounded answer.
    gradient=gradient.of_rows(
        lambda values, _: gradient.plain_terms(values), "|g| p", is_rounded=True, keeps_answer=True
    ),
)
