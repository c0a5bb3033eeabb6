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
from softcheck.operations.ulp import Flags, Scaled, scale

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
        return replace(self, elements=np.where(output < probabilities, self.below, self.elements))


def bounds(values: Values, exact: Scaled, probabilities: Values, constants: Model) -> Bounds:
    """Bounds on errors and sums of a matrix.

    ``values`` are the logits and ``probabilities`` the exact softmax rounded to float64, both [rows, columns]; ``exact``
    is the same softmax in units of its ULPs. For an online kernel the exponents of an element's successive rescalings
    add up to its d, so they are already in c d; each rescaling then has one exp and one product more, and there is at
    most one per addition.
    """
    columns = values.shape[1]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        logarithmic, weighted = logarithmic_errors(values, probabilities, constants)
        masked = np.isneginf(values)
        longest = depth(columns, constants.lanes)
        additions = longest * constants.addition + columns * constants.underflow + constants.denominator
        common = weighted + additions + constants.division + longest * constants.rescale
        logarithmic += common[:, None]
        limit = np.expm1(np.minimum(logarithmic, LARGEST_EXPONENT))
        limit *= exact.high
        far = logarithmic > ONE_SIDED
        underflown = exact.in_ulps(constants.underflow) * _smallest_sum_inverse(values, common - weighted, constants)
        if constants.rounds_logits:
            _add_underflown(limit, values, probabilities, logarithmic, exact)
        limit += underflown
        # Errors too large for this arithmetic promise nothing, however small g is.
        limit[(logarithmic > LARGEST_EXPONENT) & ~masked] = np.finfo(np.float64).max
        rounding = _rounding(limit, logarithmic, constants)
        if masked.any():
            rounding = np.where(masked, 0.0, rounding)
        elements = limit + rounding if constants.rounds_result else limit
        # An output lies in [0, 1] or is out of range, so no error needs a bound above 1, and no sum a bound above n.
        np.minimum(elements, exact.in_ulps(2.0), out=elements)
        below = None
        if far.any():
            far &= ~_may_overflow(values, probabilities, weighted + additions, constants)
            below = np.where(far, np.minimum(_below(logarithmic, underflown, exact, constants), elements), elements)
        rescaling = 2 * weighted + longest * constants.rescale if constants.rescale else np.zeros(len(weighted))
        sums = sum_allowance((rounding * exact.ulp).sum(axis=1), columns, rescaling + additions, constants)
        np.minimum(sums, columns + 1.0, out=sums)
    return Bounds(elements, rounding, constants.rounds_result, sums, below)


def sum_allowance(roundings: Values, columns: int, additions: Values, constants: Model) -> Values:
    """Largest |sum - 1| of rows, shape [rows]: the cost of rounding each exact result, and the kernel's own part.

    ``roundings`` are the sums of half ULPs over each row, and ``additions`` the logarithmic errors of the denominators.
    The errors of the exponentials cancel, because the same exponentials stand above and below the fraction bar.
    """
    return roundings + np.expm1(additions + constants.division) + columns * constants.underflow


def logarithmic_errors(values: Values, probabilities: Values, constants: Model) -> tuple[Values, Values]:
    """A of each element, [rows, columns], and the logarithm of exp(A)'s mean weighted by the probabilities, [rows]."""
    top = values.max(axis=1, keepdims=True)
    rounded = expression.of_logits(values, top, constants) if constants.rounds_logits else None
    errors = expression.exponent_errors(values - top, rounded, constants)
    return errors, expression.mean_growth(errors, probabilities, constants)[:, 0]


def _smallest_sum_inverse(values: Values, common: Values, constants: Model) -> Values:
    """Largest factor by which dividing by the computed sum enlarges an underflow in a numerator, [rows, 1].

    The largest logit's own exponential is exactly 1, so the sum is at least 1 but for its rounding, ``common``. Only a
    fused scaling leaves an exponent there.
    """
    common = common + _left_at_maximum(values, constants)
    return np.exp(np.minimum(common, LARGEST_EXPONENT))[:, None]


def _left_at_maximum(values: Values, constants: Model) -> Values:
    """Largest distance of the largest logit's own exponential from 1, in the logarithm, [rows]."""
    if not constants.rounds_logits:
        return np.zeros(len(values))
    errors: Values = constants.left_at_maximum * np.abs(values.max(axis=1)) + constants.exponential
    return errors


def _add_underflown(limit: Values, values: Values, probabilities: Values, logarithmic: Values, exact: Scaled) -> None:
    """Raises ``limit`` where g underflows even in float64, but the exponent's error is as large as the exponent.

    There g exp(B) <= exp(B - d).
    """
    distance = np.minimum(values.max(axis=1, keepdims=True) - values, np.finfo(np.float64).max)
    reachable = scale(np.exp(np.minimum(logarithmic - distance, 0.0)), -exact.quantum, exact.fmt)
    np.copyto(limit, np.maximum(limit, reachable), where=(probabilities == 0) & np.isfinite(values))


def _below(logarithmic: Values, underflown: Values, exact: Scaled, constants: Model) -> Values:
    """Largest errors of outputs below g, in units of ulp(g).

    Each is the sum of g - g exp(-B), the underflow, and the rounding of g exp(-B).
    """
    least = exact.high * np.exp(-logarithmic)
    errors = exact.high - least + underflown
    if constants.rounds_result:
        errors += least * exact.fmt.unit_roundoff + exact.in_ulps(0.5 * exact.fmt.least_subnormal)
    return errors


def _may_overflow(values: Values, probabilities: Values, additions: Values, constants: Model) -> Flags:
    """Rows whose sum may be infinite in the type of the sum, so that every output is 0, [rows, 1].

    The exact sum is 1 over the largest probability. ``additions`` bounds the rise of the computed sum, in the
    logarithm.
    """
    # 0 where a row is masked as a whole.
    largest = probabilities.max(axis=1)
    rises = additions - np.log(np.fmax(largest, np.finfo(np.float64).tiny)) + _left_at_maximum(values, constants)
    overflows: Flags = (rises >= math.log(constants.largest_sum))[:, None]
    return overflows


def _rounding(limit: Values, logarithmic: Values, constants: Model) -> Values:
    """Largest error of rounding to the output format, in units of ulp(g): half an ULP of the rounded value.

    A value that its earlier errors carry over a power of two is rounded with a larger ULP. As long as these errors stay
    below half an ULP, the value then rounds to that power itself, no farther than the errors carried it, so half an
    ulp(g) still holds. Otherwise ulp(g e^B) <= 2 e^B ulp(g).
    """
    if not constants.rounds_result:
        return np.full((1, 1), 0.5)
    half = 0.5 + 0.5 * logarithmic
    far = limit > 0.5
    if far.any():
        half[far] = np.exp(logarithmic[far])
    return half
