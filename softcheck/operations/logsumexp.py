"""Logarithm of the sum of exponentials over the columns of a matrix: max x + log(sum exp(x - max x)) in each row.

The bound is derived in docs/bounds.md, section 22. With m = max x, L = log(sum exp(x - m)), and E_L the error of L as in section 19:

    |y - r| <= E_L + rho (4 |m| + 2 |r|) + half an ulp of |r|, if the result is rounded to a narrower format

Errors are counted in ulp(max(|m| + L, 1)): the sum of m and L cancels where their signs differ, and a sum of exponentials that is
rounded to float32 is at least 1.
"""

import math
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference, with_error
from softcheck.operations.base import in_base
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.expression import half_ulp, largest, logsumexp_error, module_of, quiet
from softcheck.operations.log_softmax import LOG_SOFTMAX, logarithm_errors
from softcheck.operations.operation import Exact, Operand, Operation
from softcheck.operations.row_gradient import gradient_of_rows, plain_terms
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND
from softcheck.operations.ulp import LARGEST, Scaled

if TYPE_CHECKING:
    import torch

_SUMMED = 2.0**-104
"""Relative error of the sum of two numbers as two float64, generously."""


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


def _answer(values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
    return of_logarithms(values, LOG_SOFTMAX.answer(values, fmt, "nan"), largest(values))


def _prove(values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
    return of_logarithms(values, LOG_SOFTMAX.prove(values, fmt, "nan"), largest(values))


def shown(answer: Reference) -> str:
    """The one number of a reference in decimal, to 20 significant digits: a proven one is known to more, unless it cancels."""
    high, low = float(answer.high[0, 0]), float(answer.low[0, 0])
    return f"{Context(prec=20).add(Decimal(high), Decimal(low)):g}" if np.isfinite(high) else f"{high:g}"


def _decimal(row: Values, _column: int, fmt: Format, masked: FullyMasked) -> str:
    return shown(_prove(row[None], fmt, masked))


def _scale(values: Values, answers: Values, _fmt: Format) -> Values:
    top = largest(values)
    size: Values = module_of(values).clip(abs(top) + (answers - top), 1.0, None)
    return size


def error_of_logarithm(values: Values, constants: Model) -> Values:
    """Returns the largest error of the logarithm of each row's sum of exponentials below its maximum, [rows, 1]."""
    with quiet(values):
        below = values - largest(values)
        xp = module_of(values)
        return logarithm_errors(values, below - xp.log(xp.exp(below).sum(axis=1, keepdims=True)), constants)


def bounds_of(errors: Values, answers: Values, exact: Scaled, constants: Model) -> Bounds:
    """Returns the bounds on answers from their absolute errors before rounding, both of any one shape.

    An answer without an error is not rounded either. Sums have no bound.
    """
    with quiet(errors):
        xp = module_of(errors)
        rounding = xp.where(errors == 0, 0.0, half_ulp(abs(answers) + errors, exact.fmt))
        total = errors + rounding if constants.rounds_result else errors
        elements = xp.clip(total / exact.ulp, np.finfo(np.float64).tiny, LARGEST)
    return Bounds(elements, rounding / exact.ulp, constants.rounds_result, xp.full_like(errors[:, 0], np.inf))


def _bounds(values: Values, exact: Scaled, answers: Values, constants: Model) -> Bounds:
    error = logsumexp_error(answers, largest(values), error_of_logarithm(values, constants), constants)
    return bounds_of(error, answers, exact, constants)


def _on_device(x: "torch.Tensor", fmt: Format) -> Exact:
    import torch

    from softcheck.operations.torch_bounds import exponentials, of_rows

    found = exponentials(x)
    return of_rows(torch.where(found.top.isfinite(), found.top + found.total.log(), found.top), x.shape[1], fmt)


def _yardstick(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.logsumexp(x, dim=-1, keepdim=True)


def _with_parameters(*, base: float = math.e) -> Operation:
    return in_base(LOGSUMEXP, base)


LOGSUMEXP = Operation(
    name="logsumexp",
    operands=(Operand("x", ("rows", "columns")),),
    outputs=(Operand("y", ("rows",)),),
    families=LOG_SOFTMAX.families,
    relations=(),
    answer=_answer,
    prove=_prove,
    decimal=_decimal,
    bounds=_bounds,
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE),
    yardstick=_yardstick,
    parameters={"base": math.e},
    with_parameters=_with_parameters,
    arguments=LOG_SOFTMAX.arguments,
    with_named=LOG_SOFTMAX.with_named,
    scale=_scale,
    scale_text="of max(|max x| + log-sum, 1)",
    on_device=_on_device,
    # torch's own backward is a graph of single operations on the rounded answer.
    gradient=gradient_of_rows(lambda values, _model: plain_terms(values), "|g| p", is_rounded=True, keeps_answer=True),
)
