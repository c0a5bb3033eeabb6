"""The gradients of softmax, of its logarithm, and of one answer for each row, exactly, and the error that a right backward may make.

Softmax's is dx = y (g - sum_k y_k g_k), its logarithm's g - p sum_k g_k, and that of one answer g (a p - e), p the softmax and e what the
operation subtracts. Derived in docs/bounds.md#gradients. Errors are in ULPs of the terms' sizes, since the differences
cancel.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oracles import ball, double_double, float64
from oracles.arrays import largest
from oracles.formats import FLOAT64, Format, Values, widest
from oracles.reference import Reference, no_nan
from softcheck.numbers.expression import error_of_rounding
from softcheck.numbers.model import LARGEST_EXPONENT, Model
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.bounds import Bounds, bounds, log_softmax_bounds, of_values
from softcheck.operations.ulp import Flags, Scaled, scaled

if TYPE_CHECKING:
    import torch
    from flint import fmpq
    from numpy.typing import NDArray

ROUNDINGS = 16
"""Roundings of one element beside those of the sum: of products, differences, quotients and conversions."""
_NEAR = 2.0**-10
"""Share of a limit within which float64 decides nothing. A gradient of h columns has an error of some h 2^-53 there, and a limit of at
least 2^-20 of the same sizes: for 2^20 columns 2^-13 of it."""


@dataclass(frozen=True, slots=True)
class GradientErrors:
    """Errors of a gradient and their limits, both in ulp(scale), float64 [rows, columns]. NaN is an error of inf."""

    exact: Values
    """The exact gradient, rounded to float64."""
    errors: Values
    limits: Values
    per_ulp: Values
    """1 / ulp(scale), a power of two."""

    def __post_init__(self) -> None:
        """Raises ArithmeticError for a limit that is NaN."""
        no_nan("a gradient's bound", self.limits)

    @property
    def doubtful(self) -> "NDArray[np.int64]":
        """Rows with an error next to its limit, and none beyond: what float64 leaves open."""
        is_right = (self.errors <= self.limits * (1 - _NEAR)).all(axis=1)
        is_wrong = (self.errors > self.limits * (1 + _NEAR)).any(axis=1)
        return np.flatnonzero(~(is_right | is_wrong))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """Judges the gradients of an operation. The functions of tensors take the probabilities p first, [rows, columns]."""

    errors: Callable[..., GradientErrors]
    """Judges a gradient, as ``gradient_errors`` does."""
    scale: str
    """Words for the scale of the errors' unit."""
    size: "Callable[[torch.Tensor, torch.Tensor], torch.Tensor]"
    """Returns that scale for p and output gradients."""
    second: "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None"
    """Returns the size of the terms of a second derivative, for p, output gradients, and weights of the gradient; None if these
    are not looked at."""
    probabilities: "Callable[[torch.Tensor], torch.Tensor]" = lambda x: x.softmax(dim=1)
    """Returns p for logits as they are given, [rows, columns]."""


def gradient_errors(
    found: Values,
    grads: Values,
    logits: Values,
    answer: Reference,
    fmt: Format,
    arithmetic: Arithmetic,
) -> GradientErrors:
    """Returns the errors of a gradient ``found`` for the output gradients ``grads``.

    ``answer`` is the exact softmax of ``logits``, and all are [rows, columns]. ``fmt`` is the format of input, output and
    gradients, and ``arithmetic`` computes them, forward and backward. No row may be special.
    """
    probabilities = answer.values
    size = probabilities * (np.abs(grads) + (probabilities * np.abs(grads)).sum(axis=1, keepdims=True))
    forward = output_errors(bounds, logits, answer, fmt, arithmetic)
    judged = _Judged(found, grads, logits, size, _allowed(probabilities, grads, logits, forward, fmt, arithmetic), fmt)
    return judged.compared(probabilities, lambda: answer, lambda y, g: y * (g - (y * g).sum()))


def log_softmax_errors(
    found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
) -> GradientErrors:
    """Returns the errors of a gradient g - p sum g, as ``gradient_errors`` does.

    Derived in docs/bounds.md#gradients. ``answer`` is the exact log-softmax of ``logits``.
    """
    probabilities = np.exp(answer.values)
    inner, narrow, total = computed_in(arithmetic, fmt)
    each = ROUNDINGS * narrow.unit_roundoff
    off = _of_powers(probabilities, logits, answer, fmt, arithmetic, each)
    sums = np.abs(grads).sum(axis=1, keepdims=True)
    of_sum = (each + logits.shape[1] * total.unit_roundoff) * sums
    size = np.abs(grads) + probabilities * sums
    allowed = off * sums + (probabilities + off) * of_sum + each * (size + off * sums)
    allowed += ROUNDINGS * max(inner.least_normal, narrow.least_subnormal) * (1 + sums)
    judged = _Judged(found, grads, logits, size, allowed, fmt)
    return judged.compared(probabilities, lambda: ball.softmax(logits), lambda y, g: g - y * g.sum())


def _of_powers(
    p: Values,
    logits: Values,
    answer: Reference,
    fmt: Format,
    arithmetic: Arithmetic,
    each: float,
    *more: Values,
) -> Values:
    """Largest errors of a backward's e^y, from its ``answer`` y, the log-softmax, or of its own softmax, which is off by less.

    ``more`` are what y is off by beside that, and ``each`` what roundings leave of one.
    """
    of_output = output_errors(of_values(log_softmax_bounds), logits, answer, fmt, arithmetic, np.ones(logits.shape))
    found: Values = p * np.expm1(np.minimum(sum(more, of_output), LARGEST_EXPONENT)) + each * p
    return found


def reshaped_errors(errors: GradientErrors, shape: tuple[int, ...]) -> GradientErrors:
    """Returns the errors in another shape."""
    parts = (errors.exact, errors.errors, errors.limits, errors.per_ulp)
    return GradientErrors(*(part.reshape(shape) for part in parts))


def _with_mean(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
    return g.abs() + (p * g.abs()).sum(dim=1, keepdim=True)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A gradient for the rows of ``grads``, beside the scale of its unit and what is allowed before it is rounded to its format."""

    found: Values
    grads: Values
    logits: Values
    size: Values
    allowed: Values
    fmt: Format

    def in_units(self, exact: Values, differences: Values) -> GradientErrors:
        """Returns distances from the exact gradient and limits in ulp(size)."""
        allowed, fmt = self.allowed, self.fmt
        allowed = allowed + (fmt.unit_roundoff * (np.abs(exact) + allowed) + fmt.least_subnormal / 2)
        # A graph of single operations also sends the sum of all gradients through the maximum. Exactly, that sum is 0.
        at_peak = self.logits == self.logits.max(axis=1, keepdims=True)
        allowed += np.where(at_peak, 2.0 * allowed.sum(axis=1, keepdims=True), 0.0)
        _, exponent = np.frexp(self.size)
        per_ulp = np.ldexp(1.0, fmt.precision - np.maximum(exponent - 1, fmt.min_exponent) - 1)
        with np.errstate(over="ignore"):
            return GradientErrors(exact, differences * per_ulp, allowed * per_ulp, per_ulp)

    def compared(
        self,
        probabilities: Values,
        proof: "Callable[[], Reference]",
        formula: "Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]",
    ) -> GradientErrors:
        """Returns the errors beside the exact gradient.

        ``formula`` gives a row's gradient from its softmax and its row of ``grads``. Both are taken in float64 first: in
        narrower formats its own error is far below each limit. Rows that this leaves in doubt, and all rows of float64, are
        computed from the ``proof`` in rational numbers, and rounded once.
        """
        found = self.found
        with np.errstate(all="ignore"):
            exact = np.array([formula(*row) for row in zip(probabilities, self.grads, strict=True)]).reshape(
                found.shape
            )
            differences = np.abs(found - exact)
        differences[np.isnan(differences)] = np.inf
        judged = self.in_units(exact, differences)
        rows = np.arange(len(found)) if self.fmt == FLOAT64 else judged.doubtful
        if not rows.size:
            return judged
        exact[rows], differences[rows] = _rationally(found[rows], self.grads[rows], proof(), rows, formula)
        return self.in_units(exact, differences)


def _rationally(
    found: Values,
    grads: Values,
    answer: Reference,
    rows: "NDArray[np.int64]",
    formula: "Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]",
) -> tuple[Values, Values]:
    from flint import fmpq

    exact, differences = np.zeros(found.shape), np.full(found.shape, np.inf)
    for place, row in enumerate(rows):
        parts = zip(answer.high[row], answer.low[row], answer.exponent[row], strict=True)
        y = np.array([(_rational(high) + _rational(low)) * fmpq(2) ** int(e) for high, low, e in parts], dtype=object)
        g = np.array([_rational(grad) for grad in grads[place]], dtype=object)
        for column, (value, gradient) in enumerate(zip(found[place], formula(y, g), strict=True)):
            exact[place, column] = _rounded(gradient)
            if np.isfinite(value):
                differences[place, column] = _rounded(abs(_rational(value) - gradient))
    return exact, differences


def _rational(number: float) -> "fmpq":
    from flint import fmpq

    return fmpq(*float(number).as_integer_ratio())


def _rounded(number: "fmpq") -> float:
    # Python divides whole numbers with one rounding.
    return int(number.p) / int(number.q)


def output_errors(
    bound: Callable[[Values, Scaled, Values, Model], Bounds],
    logits: Values,
    answer: Reference,
    fmt: Format,
    arithmetic: Arithmetic,
    least: Values | None = None,
) -> Values:
    """Returns the largest absolute error of the outputs by an operation's bound, in ULPs of ``least`` at least; a masked one is exact."""
    exact = scaled(answer, fmt, least)
    limits = bound(logits, exact, answer.values, model(arithmetic, fmt))
    either = limits.elements if limits.below is None else np.maximum(limits.elements, limits.below)
    return np.where(np.isneginf(logits), 0.0, np.ldexp(either, exact.quantum))


def computed_in(arithmetic: Arithmetic, fmt: Format) -> tuple[Format, Format, Format]:
    """Returns the widest format that a backward computes in, that of its products, and that of its sums."""
    inner = widest(fmt)
    narrow = inner if arithmetic.intermediate != "input" else fmt
    return inner, narrow, inner if arithmetic.accumulation != "input" else fmt


def _allowed(
    probabilities: Values, grads: Values, logits: Values, forward: Values, fmt: Format, arithmetic: Arithmetic
) -> Values:
    """Returns the largest absolute error before the gradient is rounded to its format."""
    columns = logits.shape[1]
    _, narrow, total = computed_in(arithmetic, fmt)
    each = ROUNDINGS * narrow.unit_roundoff
    gamma = each + columns * total.unit_roundoff
    gamma = gamma / (1 - gamma) if gamma < 1 else np.inf
    size = np.abs(grads)
    y = probabilities + forward
    sums = (y * size).sum(axis=1, keepdims=True)
    of_mean = ((forward + gamma * y) * size).sum(axis=1, keepdims=True)
    least = narrow.least_normal if arithmetic.flush_to_zero else narrow.least_subnormal
    underflow = (columns + ROUNDINGS) * least * np.maximum(size.max(axis=1, keepdims=True), 1.0)
    # torch's CUDA kernel takes the products g y rounded to the format, both for the sum and for the difference.
    product = error_of_rounding(y * size, fmt)
    of_products = product + y * product.sum(axis=1, keepdims=True)
    allowed: Values = forward * (size + sums) + y * of_mean + gamma * y * (size + sums) + underflow + of_products
    return allowed


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


def of_rows(
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
        of_row = np.where(terms.counts, grads * terms.scale, 0.0)

        def formula(p: "NDArray[Any]", g: "NDArray[Any]") -> "NDArray[Any]":
            # The first two hold the row's own gradient and factor, the others what is subtracted, and the slopes.
            gradient: NDArray[Any] = g[0] * (g[1] * p - g[2 : 2 + len(p)]) * g[2 + len(p) :]
            return gradient

        given = np.hstack([of_row, terms.factor, less, np.broadcast_to(terms.slope, less.shape)])
        oracle = double_double if fmt == FLOAT64 else float64
        logarithms = oracle.log_softmax(p_of)
        p = np.exp(logarithms.values)
        inner, narrow, _ = computed_in(arithmetic, fmt)
        each = ROUNDINGS * narrow.unit_roundoff
        # A backward may take e^(x - lse) with the log-sum-exp as one rounded number too, as published kernels do.
        lse = np.abs(largest(p_of) - largest(logarithms.values))
        of_lse = (2 * narrow.unit_roundoff + keeps_answer * fmt.unit_roundoff) * lse
        of_lse = np.where(np.isfinite(of_lse), of_lse, 0.0)
        off = _of_powers(p, p_of, logarithms, fmt, arithmetic, each, of_lse, 2 * terms.logit_error)
        size = np.abs(of_row) * (terms.factor_size * p + less)
        allowed = np.abs(of_row) * (terms.factor_size * off + terms.factor_error * p) + each * size
        least = max(inner.least_normal, narrow.least_subnormal)
        allowed += ROUNDINGS * least * (1 + np.abs(of_row) * terms.factor_size)
        if terms.slope.size > 1:
            # 1 - tanh^2 of a tanh that is off by 20 rho.
            allowed = allowed + 3 * each * size
        if is_rounded:
            # Each of the subtracted terms may lose half a subnormal, and a backward multiplies p by their sum.
            terms_lost = 1 + p * np.count_nonzero(less, axis=1, keepdims=True) / 2
            allowed += 4 * fmt.unit_roundoff * size + np.maximum(np.abs(of_row), 1) * fmt.least_subnormal * terms_lost
        compared = _Judged(found, given, p_of, size, allowed, fmt).compared
        judged = compared(p, lambda: ball.softmax(p_of), formula)
        # An answer of NaN, as of a target that is no column, has no gradient that anyone promises.
        has_none = np.repeat(np.isnan(answer.high), len(p_of) // len(answer.high), axis=0)
        free = {"errors": np.where(has_none, 0.0, judged.errors), "limits": np.where(has_none, np.inf, judged.limits)}
        return reshaped_errors(replace(judged, **free), shape)

    def size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
        return g.abs() * (p + 1)

    def second(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
        return 4 * g.abs() * p * (w.abs() + (p * w.abs()).sum(dim=1, keepdim=True))

    return Gradient(errors=errors, scale=scale, size=size, second=second if has_second else None)


OF_SOFTMAX = Gradient(
    errors=gradient_errors,
    scale="y (|g| + sum y |g|)",
    size=lambda p, g: p * _with_mean(p, g),
    second=lambda p, g, w: 4 * p * _with_mean(p, g) * _with_mean(p, w),
)
OF_LOG_SOFTMAX = Gradient(
    errors=log_softmax_errors,
    scale="|g| + p sum |g|",
    size=lambda p, g: g.abs() + p * g.abs().sum(dim=1, keepdim=True),
    second=lambda p, g, w: 4 * p * _with_mean(p, w) * g.abs().sum(dim=1, keepdim=True),
)
