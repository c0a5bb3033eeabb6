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

from oracles.formats import FLOAT32, FLOAT64, Format, Values
from softcheck.operations.arithmetic import WARP, Arithmetic
from softcheck.operations.ulp import Flags, Scaled, scale

_LOG2E_CONSTANT = 0.224
"""Relative error of log2(e) rounded to float32, in units of 2^-24; float64's is 0.127 units of 2^-53."""

_TF32 = 2.0**-10
"""Relative error of a float32 number that is cut off to the 11 significant bits of TF32."""

_DIVISION = {"div_full": 5.0, "div_rn": 1.0, "reciprocal": 6.0}
"""Logarithmic error of a division in u. div.full and div.approx are within 2 ULP of the correctly rounded quotient (PTX
ISA, CUDA C++ programming guide), and so within 2.5 ULP, 5 u, of the exact quotient. A multiplication by the reciprocal
adds one u."""

VANISHED = 800.0
"""A d beyond which every kernel gives less than tau: exp(-800) is below 2^-1154, and 800 c is at most 4."""

LARGEST_EXPONENT = 700.0
"""Largest exponent whose exp is finite in float64, rounded down."""

ONE_SIDED = 0.125
"""B beyond which an output may be farther above g than below it. Up to this B, exp(B) - 1 serves both sides: it is at
most an eighth larger than 1 - exp(-B). No float32 arithmetic that subtracts a maximum has a larger B on rows of up to
2^21 columns."""


@dataclass(frozen=True, slots=True)
class Model:
    """The constants of the bound for one arithmetic and output format, as logarithmic errors."""

    exponent: float
    """c: error of the exponent per unit of d, or per unit of |x| + |max x| if x is multiplied by log2(e) first."""
    exponential: float
    """eta_e: error of exp itself."""
    addition: float
    """u of the sum, per addition on the longest path."""
    denominator: float
    """Error of rounding the finished sum to the type that divides."""
    division: float
    """eta_d."""
    rescale: float
    """Error of one rescaling of the running sum, per addition; 0 if nothing is rescaled."""
    underflow: float
    """tau: absolute error by underflow of the exponential, the division or the result."""
    rounds_result: bool
    """True if the quotient is rounded once more, to a narrower output format."""
    prescaled: bool
    """True if x is multiplied by log2(e) before the maximum is subtracted."""
    lanes: int = WARP
    """Least number of partial sums that a wide row is spread over."""
    scaling: float = 0.0
    """Error of the exponent per unit of |x| + |max x| if scaled logits are rounded before the maximum is subtracted."""
    logit_error: float = 0.0
    """Absolute error of each logit, as of one that was capped."""
    roundoff: float = 0.0
    """Error of one rounding to the type that differences and exponentials are computed in, and stored in."""
    products: float = 0.0
    """Relative error of a factor of a matrix product, if it is rounded to fewer bits than its format has."""
    largest_sum: float = FLOAT32.max
    """Largest finite number of the types that sums are formed and kept in."""

    @property
    def rounds_logits(self) -> bool:
        """True if errors grow with the logits themselves, and not only with their distance from the maximum."""
        return self.prescaled or self.scaling > 0

    @property
    def per_logit(self) -> float:
        """Error of the exponent per unit of |x| + |max x|."""
        return self.scaling + (self.exponent if self.prescaled else 0.0)

    @property
    def left_at_maximum(self) -> float:
        """Exponent that a fused scaling leaves at the largest logit, per unit of |max x|: the rounding error of one product.

        If it is the product with log2(e), it is less than c/2. If it is a product before that, it is less than ``scaling``.
        """
        return self.scaling + (0.5 * self.exponent if self.prescaled else 0.0)

    def summing(self, columns: int) -> float:
        """Logarithmic error of a row's sum, without the logarithm of exp(A)'s weighted mean."""
        longest = depth(columns, self.lanes)
        return longest * (self.addition + self.rescale) + columns * self.underflow + self.denominator

    def shared(self, columns: int) -> float:
        """The part of B_j that all elements of a row share, without the logarithm of exp(A)'s weighted mean."""
        return self.summing(columns) + self.division


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


def depth(columns: int, lanes: int = WARP) -> int:
    """h: additions on the longest path of a row's sum, for a kernel that spreads a row over ``lanes`` or more.

    With lanes <= w <= 1024 threads on a row and tiles of T >= w columns, a thread adds up T/w elements of a tile, a tree
    over the threads adds log2(w) <= 10 more, and the tiles' sums are added in turn: T/w - 1 + log2(w) + n/T additions,
    which is convex in T and so largest at T = w or T = n, at most ceil(n/lanes) + 10. Kernels may give short rows fewer
    threads, down to one, so 31 additions in sequence are always allowed: a whole row of 32 columns, or 16 bytes of
    elements per thread and a tree over the threads in rows of up to 1024. No order of additions puts more than n - 1 on a
    path, so that one lane allows every order. Padding adds exact zeros.
    """
    return max(0, min(columns - 1, max(WARP - 1, -(-columns // lanes) + 10)))


def model(arithmetic: Arithmetic, fmt: Format) -> Model:
    """Returns the bound's constants; docs/bounds.md gives the source of each.

    Operations on 16-bit intermediates are computed in float32 and then rounded, so they have both roundings.
    """
    named = {"float32": FLOAT32, "float64": FLOAT64, "input": fmt}
    inner = FLOAT64 if fmt == FLOAT64 else named[arithmetic.intermediate]
    total = FLOAT64 if fmt == FLOAT64 else named[arithmetic.accumulation]
    narrow = inner.width == 16
    u = FLOAT32.unit_roundoff if narrow else inner.unit_roundoff
    stored = _log_error(inner.unit_roundoff) if narrow else 0.0
    # libdevice's exp takes the rounded difference. ex2.approx takes its product with a rounded constant, rounded once
    # more.
    difference = stored if narrow else _log_error(u)
    argument = difference if arithmetic.exp == "libdevice" else difference + (1 + _LOG2E_CONSTANT) * _log_error(u)
    exponent = argument * (1 + argument)
    # Both exponentials are within 2 ULP of the correctly rounded result, and so within 2.5 ULP, 5 u, of the exact
    # result.
    exponential = 5 * _log_error(u) + stored
    return Model(
        exponent=exponent,
        exponential=exponential,
        addition=_log_error(total.unit_roundoff),
        denominator=_log_error(inner.unit_roundoff) if total.precision > inner.precision else 0.0,
        division=_DIVISION[arithmetic.division] * _log_error(u) + stored,
        rescale=exponential + _log_error(total.unit_roundoff) if arithmetic.rescales else 0.0,
        underflow=inner.least_normal if arithmetic.flush_to_zero else 8 * inner.least_subnormal,
        rounds_result=fmt.precision < inner.precision,
        prescaled=arithmetic.exp == "prescaled_ex2_approx",
        scaling=(_log_error(u) + stored) * (1 + exponent) if arithmetic.scaled_logits else 0.0,
        lanes=min(WARP, arithmetic.lanes),
        roundoff=_log_error(u) + stored,
        products=_TF32 if arithmetic.products == "tf32" and fmt.width == 32 else 0.0,
        largest_sum=min(total.max, inner.max),
    )


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


def _log_error(relative: float) -> float:
    """Largest error in the logarithm of a value with a relative error: log(1 + e) < -log(1 - e)."""
    return -math.log1p(-relative)


def logarithmic_errors(values: Values, probabilities: Values, constants: Model) -> tuple[Values, Values]:
    """A of each element, [rows, columns], and the logarithm of exp(A)'s mean weighted by the probabilities, [rows]."""
    top = values.max(axis=1, keepdims=True)
    if constants.rounds_logits:
        # One fused multiply and add may leave a nonzero exponent even at the maximum, so eta_e applies to all elements.
        errors = constants.per_logit * np.abs(values) + constants.per_logit * np.abs(top) + constants.exponential
        errors += 2 * constants.logit_error
        if not constants.prescaled:
            errors += constants.exponent * np.minimum(top - values, VANISHED)
        # -inf logits have the probability 0 whatever the error.
        np.minimum(errors, np.finfo(np.float64).max, out=errors)
    else:
        errors = np.minimum(top - values, VANISHED)
        below = errors > 0
        errors *= constants.exponent
        errors += constants.exponential * below
    # The mean of A itself would bound how far the sum can fall, but not how far it can rise: exp is convex. Up to A =
    # 1, exp(A) - 1 is at most A + A^2. Each row chooses by itself, so that its bound does not depend on other rows.
    growth = errors * errors
    growth += errors
    far = np.fmax.reduce(errors, axis=1, initial=0.0) > 1
    if far.any():
        growth[far] = np.expm1(np.minimum(errors[far], LARGEST_EXPONENT))
    return errors, np.log1p(np.einsum("ij,ij->i", probabilities, growth))


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
