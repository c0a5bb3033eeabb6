"""The largest error that a kernel's arithmetic can produce on each element: proven, not tuned; docs/bounds.md derives it.

Errors are logarithmic, in units of ulp(g) of the output format for an exact softmax g: A of each exponential, B with the sum and the
division. Where B is large g (exp(B) - 1) is more than g, and an output of 0 would keep it; an output below g is then held to g (1 - exp(-B)).
Formulas stand once, for numpy's arrays and torch's tensors alike, all of them float64.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracles.arrays import Array, largest, module_of, quiet
from oracles.formats import Format, Values
from softcheck.numbers.expression import Number, Positive, half_ulp
from softcheck.numbers.model import LARGEST_EXPONENT, Model
from softcheck.operations.ulp import LARGEST, Scaled

SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""


def like(values: Array, array: Any) -> Array:
    """Returns one of numpy's arrays where the values lie."""
    return array if isinstance(values, np.ndarray) else module_of(values).from_numpy(array).to(values.device)


def some(flags: Array) -> bool:
    """Returns whether flags may be set. Tensors are not looked at, so that nobody waits for a device."""
    return not isinstance(flags, np.ndarray) or bool(flags.any())


OTHER_BASE = 4.0
"""Roundings of a logarithm's product with log2(e), generously."""

IN_BASE_E = 1.05
"""Roundings of a product with log(2), and of that constant."""

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
        elements = module_of(output).where(output < probabilities, self.below, self.elements)
        return replace(self, elements=elements)


def softmax(x: Number) -> Positive:
    """Returns the exponentials below the row's maximum over their sum."""
    powers = (x - x.max()).exp()
    return powers / powers.sum()


def log_softmax(x: Number) -> Number:
    """Returns the distance below the maximum less the sum's logarithm.

    The form with the largest error computes both in base 2, and multiplies the result by log(2).
    """
    below = x - x.max()
    return (below.in_base_two() - below.exp().sum().logarithm()).rounded(IN_BASE_E)


def logsumexp(x: Number, more: float = 0.0) -> Number:
    """Returns the maximum and the sum's logarithm added up, each with so many roundings ``more``.

    Forms are the sum itself, the same in base 2 with the maximum times log2(e) and the result times log(2), and the merge of parts' log-sum-exps.
    """
    top = x.max()
    return (top.rounded(4.0 + more) + (x - top).exp().sum().logarithm().rounded(more)).rounded(1.0)


def softmax_backward(y: Number, g: Number, fmt: Format) -> Number:
    """Returns y g - y sum(y g), [rows, columns], for an output y of softmax and its gradient g.

    The form with the largest error has the products y g rounded to the format, as torch's CUDA kernel takes them; y (g - sum) errs by less.
    """
    products = (y * g).in_format(fmt)
    return products - y * products.sum()


def log_softmax_backward(p: Number, g: Number) -> Number:
    """Returns g - p sum(g), [rows, columns], for the softmax p and the gradient g of its logarithm."""
    return g - p * g.sum()


def bounds(values: Array, exact: Scaled, probabilities: Array, constants: Model) -> Bounds:
    """Bounds on errors and sums of a matrix.

    ``values`` are the logits and ``probabilities`` the exact softmax rounded to float64, both [rows, columns]; ``exact``
    is the same softmax in units of its ULPs.
    """
    return softmax_bounds(Number.read(values, constants), exact, probabilities)


def softmax_bounds(x: Number, exact: Scaled, probabilities: Array) -> Bounds:
    """Bounds on errors and sums of a softmax of logits with errors.

    For an online kernel the exponents of an element's successive rescalings add up to its d, so they are already in c d; each
    rescaling then has one exp and one product more, and there is at most one per addition.
    """
    values, constants = x.value, x.model
    xp, columns = module_of(values), values.shape[1]
    with quiet(values):
        top = x.max()
        powers = (x - top).exp()
        total = powers.sum()
        logarithmic = (powers / total).log
        masked, summed = xp.isneginf(values), constants.summing(columns)
        weighted: Array = total.log - summed
        limit = xp.expm1(xp.clip(logarithmic, None, LARGEST_EXPONENT))
        limit *= exact.high
        far = logarithmic > ONE_SIDED
        # The largest logit's own exponential is exactly 1, so the sum is at least 1 but for its rounding. A fused scaling may leave it
        # the rounding error of one product there.
        left = xp.zeros_like(values[:, :1])
        if powers.is_rough:
            left = top.error - abs(top.value) * (constants.constant * constants.prescaled) + constants.exponential
        lost_sum = left + (summed + constants.division)
        underflown = exact.in_ulps(constants.underflow) * xp.exp(xp.clip(lost_sum, None, LARGEST_EXPONENT))
        if powers.is_rough:
            # Where g underflows even in float64, but the exponent's error is as large as the exponent, g exp(B) <= exp(B - d).
            distance = xp.clip(top.value - values, None, np.finfo(np.float64).max)
            reachable = exact.in_ulps(xp.exp(xp.clip(logarithmic - distance, None, 0.0)))
            limit = xp.where((probabilities == 0) & xp.isfinite(values), xp.maximum(limit, reachable), limit)
        limit += underflown
        # Errors too large for this arithmetic promise nothing, however small g is.
        lost = (logarithmic > LARGEST_EXPONENT) & ~masked
        if some(lost):
            limit = xp.where(lost, np.finfo(np.float64).max, limit)
        rounding = _rounding(limit, logarithmic, constants)
        if some(masked):
            rounding = xp.where(masked, 0.0, rounding)
        # An output lies in [0, 1] or is out of range, so no error needs a bound above 1, and no sum a bound above n.
        elements = xp.minimum(limit + rounding if constants.rounds_result else limit, exact.in_ulps(2.0))
        below = None
        if some(far):
            far &= ~_may_overflow(probabilities, total.log + left, constants)
            below = xp.where(far, xp.minimum(_below(logarithmic, underflown, exact, constants), elements), elements)
        of_sum = summed + (2 * weighted[:, 0] if constants.rescale else xp.zeros_like(weighted[:, 0]))
        sums = sum_allowance((rounding * exact.ulp).sum(axis=1), columns, of_sum, constants)
    return Bounds(elements, rounding, constants.rounds_result, xp.clip(sums, None, columns + 1.0), below)


def sum_allowance(roundings: Array, columns: int, additions: Array, constants: Model) -> Array:
    """Largest |sum - 1| of rows, shape [rows]: the cost of rounding each exact result, and the kernel's own part.

    ``roundings`` are the sums of half ULPs over each row, and ``additions`` the logarithmic errors of the denominators.
    The errors of the exponentials cancel, because the same exponentials stand above and below the fraction bar.
    """
    grown = module_of(additions).expm1(additions + constants.division)
    return roundings + grown + columns * constants.underflow


def _below(logarithmic: Array, underflown: Array, exact: Scaled, constants: Model) -> Array:
    """Largest errors of outputs below g, in units of ulp(g).

    Each is the sum of g - g exp(-B), the underflow, and the rounding of g exp(-B).
    """
    least = exact.high * module_of(logarithmic).exp(-logarithmic)
    errors = exact.high - least + underflown
    if constants.rounds_result:
        errors += least * exact.fmt.unit_roundoff + exact.in_ulps(0.5 * exact.fmt.least_subnormal)
    return errors


def _may_overflow(probabilities: Array, additions: Array, constants: Model) -> Array:
    """Rows whose sum may be infinite in the type of the sum, so that every output is 0, [rows, 1].

    The exact sum is 1 over the largest probability. ``additions`` bounds the rise of the computed sum, in the
    logarithm.
    """
    xp = module_of(probabilities)
    # 0 where a row is masked as a whole.
    top = xp.clip(largest(probabilities), np.finfo(np.float64).tiny, None)
    return additions - xp.log(top) >= math.log(constants.largest_sum)


def _rounding(limit: Array, logarithmic: Array, constants: Model) -> Array:
    """Largest error of rounding to the output format, in units of ulp(g): half an ULP of the rounded value.

    A value that its earlier errors carry over a power of two is rounded with a larger ULP. As long as these errors stay
    below half an ULP, the value then rounds to that power itself, no farther than the errors carried it, so half an
    ulp(g) still holds. Otherwise ulp(g e^B) <= 2 e^B ulp(g).
    """
    xp = module_of(limit)
    if not constants.rounds_result:
        return xp.full_like(limit[:1, :1], 0.5)
    half, far = 0.5 + 0.5 * logarithmic, limit > 0.5
    return xp.where(far, xp.exp(logarithmic), half) if some(far) else half


SUMMED = 2.0**-50
"""Relative error of float64's own exponentials of outputs that are logarithms, and of their sum."""


def bounds_of(errors: Array, answers: Array, exact: Scaled, constants: Model) -> Bounds:
    """Returns the bounds on answers from their absolute errors before rounding, both of any one shape.

    An answer without an error is not rounded either. Sums have no bound.
    """
    with quiet(errors):
        xp = module_of(errors)
        rounding = xp.where(errors == 0, 0.0, half_ulp(abs(answers) + errors, exact.fmt))
        total = errors + rounding if constants.rounds_result else errors
        elements = xp.clip(total / exact.ulp, np.finfo(np.float64).tiny, LARGEST)
    return Bounds(elements, rounding / exact.ulp, constants.rounds_result, xp.full_like(errors[:, 0], np.inf))


def log_softmax_bounds(x: Number, exact: Scaled, answers: Array, base: float = math.e) -> Bounds:
    """Bounds on errors of a log-softmax, and on the sums of its powers; docs/bounds.md#formulas derives them."""
    xp, found = module_of(answers), log_softmax(x)
    found = found if base == math.e else found.rounded(OTHER_BASE, 1 / math.log(base))
    error = xp.where(xp.isneginf(x.value), 0.0, found.error + x.model.underflow)
    allowed = bounds_of(error, answers, exact, x.model)
    grown = xp.expm1(xp.clip(allowed.elements * exact.ulp * math.log(base), None, LARGEST_EXPONENT))
    sums = (xp.exp(answers * math.log(base)) * grown).sum(axis=1) + SUMMED
    return replace(allowed, sums=xp.clip(sums, None, answers.shape[1] + 1.0))


def logsumexp_bounds(x: Number, exact: Scaled, answers: Array, base: float = math.e) -> Bounds:
    """Bounds on errors of a log-sum-exp; docs/bounds.md#formulas derives them."""
    found = logsumexp(x, 0.0 if base == math.e else OTHER_BASE)
    return bounds_of(found.error / math.log(base) + x.model.underflow, answers, exact, x.model)


def of_values(allowed: Callable[[Number, Scaled, Array], Bounds]) -> Callable[[Array, Scaled, Array, Model], Bounds]:
    """Returns the bounds for a matrix of logits from those for logits with errors."""

    def found(values: Array, exact: Scaled, answers: Array, constants: Model) -> Bounds:
        with quiet(values):
            return allowed(Number.read(values, constants), exact, answers)

    return found
