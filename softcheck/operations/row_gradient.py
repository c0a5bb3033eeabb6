"""Gradients of operations with one answer for each row: dx = g (a p - e), p the softmax and e what the operation subtracts.

Derived in docs/bounds.md, sections 24 and 28. Errors are in ulp(|g| (a p + e)), since the difference cancels where p is near 1.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oracles import ball
from oracles.formats import Format, Values
from oracles.reference import Reference
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import LARGEST_EXPONENT, Model, model
from softcheck.operations.expression import largest
from softcheck.operations.gradient import (
    ROUNDINGS,
    Gradient,
    GradientErrors,
    compared,
    computed_in,
    in_units,
    output_errors,
    reshaped_errors,
)
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.ulp import Flags

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class RowTerms(NamedTuple):
    """The terms of the gradient g slope (factor p - less) of one answer for each row."""

    logits: Values
    """The logits whose softmax p is, [rows, columns]."""
    less: Values
    """The subtrahend, [rows, columns]."""
    counts: Flags
    """Rows that have a gradient, [rows, 1]."""
    factor: Values
    """The number by which p is multiplied, [rows, 1]."""
    factor_size: Values
    """The sum of the factor's terms' sizes."""
    factor_error: Values
    """The factor's own error beside roundings."""
    slope: Values
    """The derivative of the logits by the scaled inputs, [rows, columns] or [1, 1]."""
    logit_error: Values
    """The largest error of the logits themselves, [rows, columns] or [rows, 1]."""
    scale: float = 1.0
    """The factor of the inputs."""


def plain_terms(values: Values) -> RowTerms:
    """The terms of a gradient that is g p."""
    ones = np.ones((len(values), 1))
    return RowTerms(values, np.zeros_like(values), ones > 0, ones, ones, 0 * ones, np.ones((1, 1)), 0 * ones)


def gradient_of_rows(
    terms_of: Callable[[Values, Model], RowTerms],
    scale: str,
    *,
    is_rounded: bool = False,
    keeps_answer: bool = False,
    has_second: bool = True,
) -> Gradient:
    """Judges the gradients of an operation with such terms; ``scale`` are words for the unit's scale.

    ``is_rounded`` says that what is subtracted, or the gradient for 1, may be rounded to the inputs' format first, as a graph of
    single operations does. ``keeps_answer`` says that the answer is the log-sum-exp, whose rounding to the format a backward that
    takes it from there is given. ``has_second`` says that the second derivative has the terms of g (p - e). An operation of whole matrices has more
    rows of logits than answers, as many for each. Nothing is demanded of the gradient of an answer that is to be NaN.
    """

    def errors(
        found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        terms = terms_of(logits, model(arithmetic, fmt))
        p_of, less = terms.logits, terms.less
        shape = found.shape
        found, grads = found.reshape(p_of.shape), np.repeat(grads, len(p_of) // len(grads), axis=0)
        of_rows = np.where(terms.counts, grads * terms.scale, 0.0)

        def formula(p: "NDArray[Any]", g: "NDArray[Any]") -> "NDArray[Any]":
            # The first two hold the row's own gradient and factor, the others what is subtracted, and the slopes.
            gradient: NDArray[Any] = g[0] * (g[1] * p - g[2 : 2 + len(p)]) * g[2 + len(p) :]
            return gradient

        given = np.hstack([of_rows, terms.factor, less, np.broadcast_to(terms.slope, less.shape)])
        logarithms = LOG_SOFTMAX.answer(p_of, fmt, "nan")
        p = np.exp(logarithms.values)
        inner, narrow, _ = computed_in(arithmetic, fmt)
        each = ROUNDINGS * narrow.unit_roundoff
        # A backward takes e^y of log-softmax rounded to the format, or computes the softmax again, which is off by less.
        of_output = output_errors(LOG_SOFTMAX.bounds, p_of, logarithms, fmt, arithmetic, LOG_SOFTMAX.scale)
        # Or it takes e^(x - lse) with the log-sum-exp as one rounded number, as published kernels do.
        lse = np.abs(largest(p_of) - largest(logarithms.values))
        of_lse = (2 * narrow.unit_roundoff + keeps_answer * fmt.unit_roundoff) * lse
        of_output = of_output + np.where(np.isfinite(of_lse), of_lse, 0.0)
        off = p * np.expm1(np.minimum(of_output + 2 * terms.logit_error, LARGEST_EXPONENT)) + each * p
        size = np.abs(of_rows) * (terms.factor_size * p + less)
        allowed = np.abs(of_rows) * (terms.factor_size * off + terms.factor_error * p) + each * size
        least = max(inner.least_normal, narrow.least_subnormal)
        allowed += ROUNDINGS * least * (1 + np.abs(of_rows) * terms.factor_size)
        if terms.slope.size > 1:
            # 1 - tanh^2 of a tanh that is off by 20 rho.
            allowed = allowed + 3 * each * size
        if is_rounded:
            # Each of the subtracted terms may lose half a subnormal, and a backward multiplies p by their sum.
            terms_lost = 1 + p * np.count_nonzero(less, axis=1, keepdims=True) / 2
            allowed += 4 * fmt.unit_roundoff * size + np.maximum(np.abs(of_rows), 1) * fmt.least_subnormal * terms_lost
        units = partial(in_units, allowed=allowed, size=size, logits=p_of, fmt=fmt)
        judged = compared(found, given, p, lambda: ball.softmax(p_of), formula, units, fmt)
        # An answer of NaN, as of a target that is no column, has no gradient that anyone promises.
        has_none = np.repeat(np.isnan(answer.high), len(p_of) // len(answer.high), axis=0)
        free = {"errors": np.where(has_none, 0.0, judged.errors), "limits": np.where(has_none, np.inf, judged.limits)}
        return reshaped_errors(replace(judged, **free), shape)

    def size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
        return g.abs() * (p + 1)

    def second(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
        return 4 * g.abs() * p * (w.abs() + (p * w.abs()).sum(dim=1, keepdim=True))

    return Gradient(errors=errors, scale=scale, size=size, second=second if has_second else None)
