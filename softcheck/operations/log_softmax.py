"""Logarithm of the softmax over the columns of a matrix: x - max x - log(sum exp(x - max x)) in each row.

The bound is derived in docs/bounds.md, section 19. With d_j = max x - x_j, L = log(sum exp(-d)), C the logarithmic error of the sum
(the softmax's, without the division's), rho the roundoff of the type computed in, and c the exponent's error per unit of d:

    E_j = c d_j + C + rho (3 + 6 L) + 2 rho |r_j|
    |y_j - r_j| <= E_j + tau + half an ulp of |r_j| + E_j, if the result is rounded to a narrower format

Errors are counted in ulp(max(|r|, 1)): the sum is at least 1, and whoever rounds it to float32 knows its logarithm to 2^-24
and no better, however small it is.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles import ball, double_double, float64
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import LARGEST_EXPONENT, Bounds, Model, logarithmic_errors
from softcheck.operations.capped import capped
from softcheck.operations.causal import masked_by_position
from softcheck.operations.expression import (
    half_ulp,
    largest,
    log_softmax_error,
    logarithm_error,
    module_of,
    of_logits,
    quiet,
)
from softcheck.operations.gradient import (
    ROUNDINGS,
    Gradient,
    GradientErrors,
    compared,
    computed_in,
    in_units,
    output_errors,
    softmax_size,
)
from softcheck.operations.operation import Exact, Operand, Operation
from softcheck.operations.rules import (
    FINITE_WHERE_DUE,
    NAN_WHERE_DUE,
    ORDERED,
    POWERS_SUM_TO_ONE,
    WITHIN_BOUND,
    in_range,
)
from softcheck.operations.scaled import scaled
from softcheck.operations.softmax import SOFTMAX
from softcheck.operations.ulp import LARGEST, Scaled

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

SUMMED = 2.0**-50
"""Relative error of float64's own exponentials of the outputs, and of their sum."""


def _answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
    if fmt == FLOAT64:
        return double_double.log_softmax(values, fully_masked=fully_masked)
    return float64.log_softmax(values, fully_masked=fully_masked)


def _prove(values: Values, _fmt: Format, fully_masked: FullyMasked) -> Reference:
    return ball.log_softmax(values, fully_masked=fully_masked)


def _scale(_values: Values, answers: Values, _fmt: Format) -> Values:
    ones: Values = module_of(answers).ones_like(answers)
    return ones


def _powers(outputs: Values) -> Values:
    found: Values = module_of(outputs).exp(outputs)
    return found


def _decimal(row: Values, column: int, _fmt: Format, fully_masked: FullyMasked) -> str:
    return ball.log_decimal(row, column, fully_masked=fully_masked)


def _bounds(values: Values, exact: Scaled, logarithms: Values, constants: Model) -> Bounds:
    fmt, columns, xp = exact.fmt, values.shape[1], module_of(values)
    with quiet(values):
        rounded = of_logits(values, largest(values), constants) if constants.rounds_logits else None
        of_sum = logarithm_errors(values, logarithms, constants)
        error = log_softmax_error(logarithms, -largest(logarithms), of_sum, rounded, constants)
        masked = xp.isneginf(values)
        rounding = xp.where(masked, 0.0, half_ulp(abs(logarithms) + error, fmt))
        total = xp.where(masked, 0.0, error + rounding if constants.rounds_result else error)
        sums = (xp.exp(logarithms) * xp.expm1(xp.clip(total, None, LARGEST_EXPONENT))).sum(axis=1) + SUMMED
        elements = xp.clip(total / exact.ulp, None, LARGEST)
    return Bounds(elements, rounding / exact.ulp, constants.rounds_result, xp.clip(sums, None, columns + 1.0))


def logarithm_errors(values: Values, logarithms: Values, constants: Model) -> Values:
    """Returns the absolute errors of the logarithms of rows' sums, [rows, 1]; ``logarithms`` is the exact log-softmax."""
    with quiet(values):
        _, weighted = logarithmic_errors(values, module_of(logarithms).exp(logarithms), constants)
        found: Values = logarithm_error(-largest(logarithms), weighted, values.shape[1], constants)
    return found


def _of_log_softmax(y: "NDArray[Any]", g: "NDArray[Any]") -> "NDArray[Any]":
    gradient: NDArray[Any] = g - y * g.sum()
    return gradient


def _gradient_errors(
    found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
) -> GradientErrors:
    """Returns the errors of a gradient g - p sum g, as ``softcheck.operations.gradient.gradient_errors`` does.

    Derived in docs/bounds.md, section 20. ``answer`` is the exact log-softmax of ``logits``.
    """
    probabilities = np.exp(answer.values)
    of_output = output_errors(_bounds, logits, answer, fmt, arithmetic, _scale)
    inner, narrow, total = computed_in(arithmetic, fmt)
    each = ROUNDINGS * narrow.unit_roundoff
    # A backward takes e^y of the output y, or computes the softmax again, which is off by less.
    off = probabilities * np.expm1(np.minimum(of_output, LARGEST_EXPONENT)) + each * probabilities
    sums = np.abs(grads).sum(axis=1, keepdims=True)
    of_sum = (each + logits.shape[1] * total.unit_roundoff) * sums
    size = np.abs(grads) + probabilities * sums
    allowed = off * sums + (probabilities + off) * of_sum + each * (size + off * sums)
    allowed += ROUNDINGS * max(inner.least_normal, narrow.least_subnormal) * (1 + sums)
    units = partial(in_units, allowed=allowed, size=size, logits=logits, fmt=fmt)
    return compared(found, grads, probabilities, lambda: ball.softmax(logits), _of_log_softmax, units, fmt)


def _gradient_size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
    return g.abs() + p * g.abs().sum(dim=1, keepdim=True)


def _second_size(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
    return 4 * softmax_size(p, w) * g.abs().sum(dim=1, keepdim=True)


def _on_device(x: "torch.Tensor", fmt: Format, *, scale: float = 1.0) -> Exact:
    from softcheck.operations.torch_bounds import exponentials, summing_error

    found = exponentials(x, scale)
    return Exact(found.below - found.total.log(), summing_error(x.shape[1]) * 2.0**fmt.precision)


def _yardstick(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.log_softmax(x, dim=-1)


def _with_parameters(
    *, scale: float = 1.0, softcap: float = 0.0, base: float = math.e, causal: str = "", queries: float = 0
) -> Operation:
    from softcheck.operations.base import in_base

    found = in_base(capped(scaled(LOG_SOFTMAX, scale), softcap, scale), base)
    return masked_by_position(found, causal, queries)


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
    scale=_scale,
    scale_text="of max(|r|, 1)",
    parameters={"scale": 1.0, "softcap": 0.0, "base": math.e, "causal": "", "queries": 0},
    with_parameters=_with_parameters,
    arguments=SOFTMAX.arguments,
    with_named=SOFTMAX.with_named,
    probabilities=_powers,
    on_device=_on_device,
    gradient=Gradient(errors=_gradient_errors, scale="|g| + p sum |g|", size=_gradient_size, second=_second_size),
)
