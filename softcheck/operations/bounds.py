"""The largest error that a kernel's arithmetic can produce on each element: proven, not tuned; docs/bounds.md derives it.

Errors are logarithmic, in units of ulp(g) of the output format for an exact softmax g: A of each exponential, B with the sum and the
division. Where B is large g (exp(B) - 1) is more than g, and an output of 0 would keep it; an output below g is then held to g (1 - exp(-B)).
Formulas stand once, for numpy's arrays and torch's tensors alike, all of them float64.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracles.arrays import Array, largest, module_of, quiet
from oracles.formats import FLOAT64, Format, Values
from softcheck.operations.arithmetic import LARGEST_EXPONENT, VANISHED, Model, depth, model
from softcheck.operations.ulp import LARGEST, Scaled

__all__ = ["LARGEST_EXPONENT", "VANISHED", "Bounds", "Model", "bounds", "bounds_of", "depth", "model"]

LOGARITHM, NEXT_TO_ONE = 6.0, 3.0
"""Relative and absolute error of a logarithm in rho. lg2.approx is within 2^-22 absolutely for arguments from 0.5 to 2 and relatively
elsewhere (PTX ISA), which is 4 rho of base 2 and 2.8 of base e; the product with log(2) rounds twice. Logarithms of libraries
are within 1 ULP, 2 rho."""

SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""

CENTRED = 8 * 2.0**-53
"""Error of a softmax's backward that takes one number from all of a row's gradients first, in float64, in units of y max |g|."""

_EXPONENT = 0x7FF << 52


def like(values: Array, array: Any) -> Array:
    """Returns one of numpy's arrays where the values lie."""
    return array if isinstance(values, np.ndarray) else module_of(values).from_numpy(array).to(values.device)


def gathered(values: Array, index: Array) -> Array:
    """Returns the elements of each row at columns, [rows, 1]."""
    xp = module_of(values)
    return xp.take_along_axis(values, index, axis=1) if xp is np else xp.take_along_dim(values, index, dim=1)


def some(flags: Array) -> bool:
    """Returns whether flags may be set. Tensors are not looked at, so that nobody waits for a device."""
    return not isinstance(flags, np.ndarray) or bool(flags.any())


def half_ulp(size: Array, fmt: Format) -> Array:
    """Returns half the spacing of a format's values at sizes that are not NaN."""
    xp = module_of(size)
    bits = xp.clip(size, fmt.least_normal, fmt.max).view(xp.int64) & _EXPONENT
    return bits.view(xp.float64) * 2.0**-fmt.precision


def error_of_rounding(size: Array, fmt: Format) -> Array:
    """Returns the largest error of rounding numbers of a size to a format: of all of it, where it may become 0."""
    xp = module_of(size)
    return xp.minimum(size, xp.clip(size * fmt.unit_roundoff, fmt.least_subnormal / 2, None))


def of_logits(x: Array, top: Array, model: Model) -> Array:
    """Returns the errors of exponents that grow with the logits x themselves and with their largest, [rows, columns]."""
    # The sum of the largest numbers overflows, that of their errors does not.
    return abs(x) * model.per_logit + (abs(top) * model.per_logit + 2 * model.logit_error)


def exponent_errors(below: Array, rounded: Array | None, model: Model) -> Array:
    """Returns A, the logarithmic error of each exponential, [rows, columns].

    ``below`` is x - max x, and ``rounded`` is from ``of_logits``; None for a model that rounds no logits.
    """
    xp = module_of(below)
    distance = xp.clip(-below, None, VANISHED)
    if rounded is None:
        # A product of a flag and a number is float32 in torch, that of a sign is not.
        return distance * model.exponent + xp.sign(distance) * model.exponential
    # One fused multiply and add may leave a nonzero exponent even at the maximum, so eta_e applies to all elements.
    errors = rounded + model.exponential
    if not model.prescaled:
        errors += distance * model.exponent
    # -inf logits have the probability 0 whatever the error.
    return xp.clip(errors, None, np.finfo(np.float64).max)


def mean_growth(errors: Array, weights: Array, model: Model) -> Array:
    """Returns the logarithm of exp(A)'s mean with ``weights``, [rows, 1], from ``exponent_errors``.

    The mean of A itself would bound how far the sum can fall, but not how far it can rise: exp is convex. Up to A = 1,
    exp(A) - 1 is at most A + A^2. Each row chooses by itself, so that its bound does not depend on other rows.
    """
    xp = module_of(errors)
    growth = errors * errors
    growth += errors
    if model.rounds_logits or model.exponent * VANISHED + model.exponential > 1:
        far = xp.amax(errors, axis=1, keepdims=True) > 1
        growth = xp.where(far, xp.expm1(xp.clip(errors, None, LARGEST_EXPONENT)), growth)
    growth *= weights
    return xp.log1p(growth.sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True))


def logarithm_error(logarithm: Array, growth: Array, columns: int, model: Model) -> Array:
    """Returns the absolute error of the logarithm of a row's sum, [rows, 1], from ``mean_growth``."""
    own = (logarithm * LOGARITHM + NEXT_TO_ONE) * (model.roundoff * SECOND_ORDER)
    return own + growth + model.summing(columns)


def log_softmax_error(
    answers: Array, logarithm: Array, of_logarithm: Array, rounded: Array | None, model: Model
) -> Array:
    """Returns the absolute error of a log-softmax before it is rounded, [rows, columns].

    The exponent's error is c d, where d = |r| - L; ``rounded`` is that of ``exponent_errors``.
    """
    per_size = (model.exponent + 2 * model.roundoff) * SECOND_ORDER
    common = of_logarithm + model.underflow - logarithm * (model.exponent * SECOND_ORDER)
    error = common - answers * per_size
    if rounded is not None:
        error += rounded * SECOND_ORDER
    return error


def logsumexp_error(answers: Array, top: Array, of_logarithm: Array, model: Model) -> Array:
    """Returns the absolute error of a log-sum-exp before it is rounded, [rows, 1]."""
    error = of_logarithm + (abs(top) * (4 * model.roundoff) + abs(answers) * (2 * model.roundoff)) + model.underflow
    return error + abs(top) * model.per_logit if model.rounds_logits else error


def backward_error(y: Array, g: Array, fmt: Format, model: Model, *, is_logarithm: bool) -> Array:
    """Returns the absolute error of the backward of an output y and its gradient g before it is rounded, [rows, columns].

    With ``is_logarithm`` y is a log-softmax, else a softmax.
    """
    xp = module_of(y)
    p, terms = (xp.exp(y), g) if is_logarithm else (y, y * g)
    sizes, largest = abs(terms).sum(axis=1, keepdims=True), xp.amax(abs(g), axis=1, keepdims=True)
    of_sum = (depth(y.shape[1], model.lanes) * model.addition + 4 * model.roundoff) * sizes
    least = model.underflow * (1 + largest) * y.shape[1]
    if is_logarithm:
        error = xp.where(xp.isfinite(y), y, 0.0) * -model.exponent + model.exponential
        error *= abs(terms.sum(axis=1, keepdims=True)) + of_sum
        error += of_sum + 4 * model.roundoff * sizes
        error *= p
        error += 4 * model.roundoff * abs(g)
    else:
        # torch's CUDA kernel takes the products y g rounded to the format.
        part = abs(terms)
        products = error_of_rounding(part, fmt)
        of_row = of_sum + 4 * model.roundoff * sizes + products.sum(axis=1, keepdims=True)
        if fmt != FLOAT64:
            of_row += CENTRED * largest
        error = p * of_row + products
        error += 4 * model.roundoff * part
    return error * SECOND_ORDER + least


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


def bounds(values: Array, exact: Scaled, probabilities: Array, constants: Model) -> Bounds:
    """Bounds on errors and sums of a matrix.

    ``values`` are the logits and ``probabilities`` the exact softmax rounded to float64, both [rows, columns]; ``exact``
    is the same softmax in units of its ULPs. For an online kernel the exponents of an element's successive rescalings
    add up to its d, so they are already in c d; each rescaling then has one exp and one product more, and there is at
    most one per addition.
    """
    xp, columns = module_of(values), values.shape[1]
    with quiet(values):
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
        if some(lost):
            limit = xp.where(lost, np.finfo(np.float64).max, limit)
        rounding = _rounding(limit, logarithmic, constants)
        if some(masked):
            rounding = xp.where(masked, 0.0, rounding)
        # An output lies in [0, 1] or is out of range, so no error needs a bound above 1, and no sum a bound above n.
        elements = xp.minimum(limit + rounding if constants.rounds_result else limit, exact.in_ulps(2.0))
        below = None
        if some(far):
            far &= ~_may_overflow(probabilities, weighted + additions + left, constants)
            below = xp.where(far, xp.minimum(_below(logarithmic, underflown, exact, constants), elements), elements)
        of_sum = additions + longest * constants.rescale
        of_sum = of_sum + (2 * weighted[:, 0] if constants.rescale else xp.zeros_like(weighted[:, 0]))
        sums = sum_allowance((rounding * exact.ulp).sum(axis=1), columns, of_sum, constants)
    return Bounds(elements, rounding, constants.rounds_result, xp.clip(sums, None, columns + 1.0), below)


def sum_allowance(roundings: Array, columns: int, additions: Array, constants: Model) -> Array:
    """Largest |sum - 1| of rows, shape [rows]: the cost of rounding each exact result, and the kernel's own part.

    ``roundings`` are the sums of half ULPs over each row, and ``additions`` the logarithmic errors of the denominators.
    The errors of the exponentials cancel, because the same exponentials stand above and below the fraction bar.
    """
    grown = module_of(additions).expm1(additions + constants.division)
    return roundings + grown + columns * constants.underflow


def logarithmic_errors(values: Array, probabilities: Array, constants: Model) -> tuple[Array, Array]:
    """A of each element, [rows, columns], and the logarithm of exp(A)'s mean weighted by the probabilities, [rows, 1]."""
    top = largest(values)
    rounded = of_logits(values, top, constants) if constants.rounds_logits else None
    errors = exponent_errors(values - top, rounded, constants)
    return errors, mean_growth(errors, probabilities, constants)


def _left_at_maximum(values: Array, constants: Model) -> Array:
    """Largest distance of the largest logit's own exponential from 1, in the logarithm, [rows, 1]: that of a fused scaling."""
    if constants.rounds_logits:
        return constants.left_at_maximum * abs(largest(values)) + constants.exponential
    return module_of(values).zeros_like(values[:, :1])


def _with_underflown(limit: Array, values: Array, probabilities: Array, logarithmic: Array, exact: Scaled) -> Array:
    """Raises ``limit`` where g underflows even in float64, but the exponent's error is as large as the exponent.

    There g exp(B) <= exp(B - d).
    """
    xp = module_of(values)
    distance = xp.clip(largest(values) - values, None, np.finfo(np.float64).max)
    reachable = exact.in_ulps(xp.exp(xp.clip(logarithmic - distance, None, 0.0)))
    return xp.where((probabilities == 0) & xp.isfinite(values), xp.maximum(limit, reachable), limit)


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


def log_softmax_bounds(values: Array, exact: Scaled, logarithms: Array, constants: Model) -> Bounds:
    """Bounds on errors and sums of a log-softmax, as ``bounds`` has them; docs/bounds.md, section 19, derives them."""
    xp, columns = module_of(values), values.shape[1]
    with quiet(values):
        rounded = of_logits(values, largest(values), constants) if constants.rounds_logits else None
        of_sum = logarithm_errors(values, logarithms, constants)
        error = log_softmax_error(logarithms, -largest(logarithms), of_sum, rounded, constants)
        masked = xp.isneginf(values)
        rounding = xp.where(masked, 0.0, half_ulp(abs(logarithms) + error, exact.fmt))
        total = xp.where(masked, 0.0, error + rounding if constants.rounds_result else error)
        sums = (xp.exp(logarithms) * xp.expm1(xp.clip(total, None, LARGEST_EXPONENT))).sum(axis=1) + SUMMED
        elements = xp.clip(total / exact.ulp, None, LARGEST)
    return Bounds(elements, rounding / exact.ulp, constants.rounds_result, xp.clip(sums, None, columns + 1.0))


def logarithm_errors(values: Array, logarithms: Array, constants: Model) -> Array:
    """Returns the absolute errors of the logarithms of rows' sums, [rows, 1]; ``logarithms`` is the exact log-softmax."""
    with quiet(values):
        _, weighted = logarithmic_errors(values, module_of(logarithms).exp(logarithms), constants)
        return logarithm_error(-largest(logarithms), weighted, values.shape[1], constants)


def error_of_logarithm(values: Array, constants: Model) -> Array:
    """Returns the largest error of the logarithm of each row's sum of exponentials below its maximum, [rows, 1]."""
    with quiet(values):
        below, xp = values - largest(values), module_of(values)
        return logarithm_errors(values, below - xp.log(xp.exp(below).sum(axis=1, keepdims=True)), constants)


def logsumexp_bounds(values: Array, exact: Scaled, answers: Array, constants: Model) -> Bounds:
    """Bounds on errors of a log-sum-exp; docs/bounds.md, section 22, derives them."""
    of_sum = error_of_logarithm(values, constants)
    error = logsumexp_error(answers, largest(values), of_sum, constants)
    return bounds_of(error, answers, exact, constants)


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
