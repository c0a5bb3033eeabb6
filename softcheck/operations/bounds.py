"""The largest error that a kernel's arithmetic can produce on each element: proven, not tuned.

Derived step by step in docs/bounds.md, in units of ulp(g) of the output format. With d_j = max x - x_j, exact softmax g_j
and logarithmic errors throughout (a relative error e is at most -log(1 - e) in the logarithm, either way):

    A_j = c d_j + eta_e                      (eta_e only where d_j > 0: exp(0) = 1 is exact)
    C   = log(sum_i g_i exp(A_i)) + h u + eta_d + n tau
    B_j = A_j + C
    |y_j - g_j| <= g_j (exp(B_j) - 1) + tau exp(h u + eta_d + n tau) + rounding to the output format

Where B_j is large that is more than g_j, and an output of 0 would keep it; an output below g_j is then held to
g_j (1 - exp(-B_j)) in place of the first term.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from oracles.formats import Values
from softcheck.operations import expression
from softcheck.operations.model import LARGEST_EXPONENT, VANISHED, Model, depth, model
from softcheck.operations.ulp import Flags, Scaled

__all__ = [
    "LARGEST_EXPONENT",
    "ONE_SIDED",
    "VANISHED",
    "Bounds",
    "Model",
    "bounds",
    "depth",
    "logarithmic_errors",
    "model",
    "sum_allowance",
]

ONE_SIDED = 0.125
"""B beyond which an output may be farther above g than below it. Up to this B, exp(B) - 1 serves both sides: it is at
most an eighth larger than 1 - exp(-B). No float32 arithmetic that subtracts a maximum has a larger B on rows of up to
2^21 columns."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest errors that an arithmetic allows. They are NaN or meaningless in special rows and at masked elements."""

    elements: Values
    """Largest error of each element in units of ulp(g), shape [rows, columns]; holds for outputs above g if ``below``
    differs."""
    rounding: Values
    """The cost of rounding to the output format, 0 for masked elements, shape [rows, columns] or [1, 1]. It is part of
    ``elements`` only if ``rounds_result``."""
    rounds_result: bool
    """True if the quotient is rounded once more, to a narrower output format."""
    sums: Values
    """Largest |sum - 1| of each row, shape [rows]."""
    below: Values | None = None
    """Largest error of outputs below g, as ``elements``; None if it is the same."""

    def of(self, output: Values, probabilities: Values) -> "Bounds":
        """Returns the bounds with ``elements`` on the side of the exact softmax on which each output lies.

        The exact softmax is ``probabilities``.
        """
        if self.below is None:
            return self
        return replace(
            self, elements=expression.module_of(output).where(output < probabilities, self.below, self.elements)
        )


def bounds(values: Values, exact: Scaled, probabilities: Values, constants: Model) -> Bounds:
    """Bounds on errors and sums of a matrix.

    ``values`` are the logits and ``probabilities`` the exact softmax rounded to float64, both [rows, columns]; ``exact``
    is the same softmax in units of its ULPs. For an online kernel the exponents of an element's successive rescalings
    add up to its d, so they are already in c d; each rescaling then has one exp and one product more, and there is at
    most one per addition.
    """
    xp, columns = expression.module_of(values), values.shape[1]
    with expression.quiet(values):
        logarithmic, weighted = logarithmic_errors(values, probabilities, constants)
        masked = xp.isneginf(values)
        longest = depth(columns, constants.lanes)
        additions = longest * constants.addition + columns * constants.underflow + constants.denominator
        own = additions + constants.division + longest * constants.rescale
        logarithmic += weighted + own
        limit = xp.expm1(xp.clip(logarithmic, None, LARGEST_EXPONENT))
        limit *= exact.high
        far = logarithmic > ONE_SIDED
        left = _left_at_maximum(values, constants)
        # The largest logit's own exponential is exactly 1, so the sum is at least 1 but for its rounding.
        underflown = exact.in_ulps(constants.underflow) * xp.exp(xp.clip(left + own, None, LARGEST_EXPONENT))
        if constants.rounds_logits:
            limit = _with_underflown(limit, values, probabilities, logarithmic, exact)
        limit += underflown
        # Errors too large for this arithmetic promise nothing, however small g is.
        lost = (logarithmic > LARGEST_EXPONENT) & ~masked
        if expression.some(lost):
            limit = xp.where(lost, np.finfo(np.float64).max, limit)
        rounding = _rounding(limit, logarithmic, constants)
        if expression.some(masked):
            rounding = xp.where(masked, 0.0, rounding)
        # An output lies in [0, 1] or is out of range, so no error needs a bound above 1, and no sum a bound above n.
        elements = xp.minimum(limit + rounding if constants.rounds_result else limit, exact.in_ulps(2.0))
        below = None
        if expression.some(far):
            far &= ~_may_overflow(probabilities, weighted + additions + left, constants)
            below = xp.where(far, xp.minimum(_below(logarithmic, underflown, exact, constants), elements), elements)
        of_sum = additions + longest * constants.rescale
        of_sum = of_sum + (2 * weighted[:, 0] if constants.rescale else xp.zeros_like(weighted[:, 0]))
        sums = sum_allowance((rounding * exact.ulp).sum(axis=1), columns, of_sum, constants)
    return Bounds(elements, rounding, constants.rounds_result, xp.clip(sums, None, columns + 1.0), below)


def sum_allowance(roundings: Values, columns: int, additions: Values, constants: Model) -> Values:
    """Largest |sum - 1| of rows, shape [rows]: the cost of rounding each exact result, and the kernel's own part.

    ``roundings`` are the sums of half ULPs over each row, and ``additions`` the logarithmic errors of the denominators.
    The errors of the exponentials cancel, because the same exponentials stand above and below the fraction bar.
    """
    grown: Values = expression.module_of(additions).expm1(additions + constants.division)
    return roundings + grown + columns * constants.underflow


def logarithmic_errors(values: Values, probabilities: Values, constants: Model) -> tuple[Values, Values]:
    """A of each element, [rows, columns], and the logarithm of exp(A)'s mean weighted by the probabilities, [rows, 1]."""
    top = expression.largest(values)
    rounded = expression.of_logits(values, top, constants) if constants.rounds_logits else None
    errors = expression.exponent_errors(values - top, rounded, constants)
    return errors, expression.mean_growth(errors, probabilities, constants)


def _left_at_maximum(values: Values, constants: Model) -> Values:
    """Largest distance of the largest logit's own exponential from 1, in the logarithm, [rows, 1]: that of a fused scaling."""
    top: Values = abs(expression.largest(values))
    if constants.rounds_logits:
        return constants.left_at_maximum * top + constants.exponential
    nothing: Values = expression.module_of(top).zeros_like(top)
    return nothing


def _with_underflown(
    limit: Values, values: Values, probabilities: Values, logarithmic: Values, exact: Scaled
) -> Values:
    """Raises ``limit`` where g underflows even in float64, but the exponent's error is as large as the exponent.

    There g exp(B) <= exp(B - d).
    """
    xp = expression.module_of(values)
    distance = xp.clip(expression.largest(values) - values, None, np.finfo(np.float64).max)
    reachable = exact.in_ulps(xp.exp(xp.clip(logarithmic - distance, None, 0.0)))
    found: Values = xp.where((probabilities == 0) & xp.isfinite(values), xp.maximum(limit, reachable), limit)
    return found


def _below(logarithmic: Values, underflown: Values, exact: Scaled, constants: Model) -> Values:
    """Largest errors of outputs below g, in units of ulp(g).

    Each is the sum of g - g exp(-B), the underflow, and the rounding of g exp(-B).
    """
    least = exact.high * expression.module_of(logarithmic).exp(-logarithmic)
    errors: Values = exact.high - least + underflown
    if constants.rounds_result:
        errors += least * exact.fmt.unit_roundoff + exact.in_ulps(0.5 * exact.fmt.least_subnormal)
    return errors


def _may_overflow(probabilities: Values, additions: Values, constants: Model) -> Flags:
    """Rows whose sum may be infinite in the type of the sum, so that every output is 0, [rows, 1].

    The exact sum is 1 over the largest probability. ``additions`` bounds the rise of the computed sum, in the
    logarithm.
    """
    xp = expression.module_of(probabilities)
    # 0 where a row is masked as a whole.
    top = xp.clip(expression.largest(probabilities), np.finfo(np.float64).tiny, None)
    overflows: Flags = additions - xp.log(top) >= math.log(constants.largest_sum)
    return overflows


def _rounding(limit: Values, logarithmic: Values, constants: Model) -> Values:
    """Largest error of rounding to the output format, in units of ulp(g): half an ULP of the rounded value.

    A value that its earlier errors carry over a power of two is rounded with a larger ULP. As long as these errors stay
    below half an ULP, the value then rounds to that power itself, no farther than the errors carried it, so half an
    ulp(g) still holds. Otherwise ulp(g e^B) <= 2 e^B ulp(g).
    """
    if not constants.rounds_result:
        constant: Values = expression.module_of(limit).full_like(limit[:1, :1], 0.5)
        return constant
    half, far = 0.5 + 0.5 * logarithmic, limit > 0.5
    xp = expression.module_of(limit)
    found: Values = xp.where(far, xp.exp(logarithmic), half) if expression.some(far) else half
    return found
