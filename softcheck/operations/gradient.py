"""The gradient of softmax, dx = y (g - sum_k y_k g_k), exactly, and the error that a right backward may make.

Derived in docs/bounds.md, section 18. Errors are in units of ulp(scale), scale = y (|g| + sum_k y_k |g_k|), since the
difference cancels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles.formats import FLOAT64, Format, Values, widest
from oracles.reference import Reference, no_nan
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import Bounds, Model, bounds, model
from softcheck.operations.expression import error_of_rounding
from softcheck.operations.ulp import Scaled, scaled

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
    allowed = _allowed(probabilities, grads, logits, forward, fmt, arithmetic)
    units = partial(in_units, allowed=allowed, size=size, logits=logits, fmt=fmt)
    return compared(found, grads, probabilities, lambda: answer, _of_softmax, units, fmt)


def reshaped_errors(errors: GradientErrors, shape: tuple[int, ...]) -> GradientErrors:
    """Returns the errors in another shape."""
    parts = (errors.exact, errors.errors, errors.limits, errors.per_ulp)
    return GradientErrors(*(part.reshape(shape) for part in parts))


def in_units(
    exact: Values, differences: Values, allowed: Values, size: Values, logits: Values, fmt: Format
) -> GradientErrors:
    """Returns errors and limits in ulp(size), from what is allowed before the gradient is rounded to its format."""
    allowed = allowed + (fmt.unit_roundoff * (np.abs(exact) + allowed) + fmt.least_subnormal / 2)
    # A graph of single operations also sends the sum of all gradients through the maximum. Exactly, that sum is 0.
    at_peak = logits == logits.max(axis=1, keepdims=True)
    allowed += np.where(at_peak, 2.0 * allowed.sum(axis=1, keepdims=True), 0.0)
    _, exponent = np.frexp(size)
    per_ulp = np.ldexp(1.0, fmt.precision - np.maximum(exponent - 1, fmt.min_exponent) - 1)
    with np.errstate(over="ignore"):
        return GradientErrors(exact, differences * per_ulp, allowed * per_ulp, per_ulp)


def softmax_size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
    """The scale p (|g| + sum_k p_k |g_k|)."""
    return p * _with_mean(p, g)


def softmax_second(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
    """The size of the terms of the gradient of sum w dx."""
    return 4 * p * _with_mean(p, g) * _with_mean(p, w)


def _with_mean(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
    return g.abs() + (p * g.abs()).sum(dim=1, keepdim=True)


def _of_softmax(y: "NDArray[Any]", g: "NDArray[Any]") -> "NDArray[Any]":
    gradient: NDArray[Any] = y * (g - (y * g).sum())
    return gradient


def compared(
    found: Values,
    grads: Values,
    probabilities: Values,
    proof: "Callable[[], Reference]",
    formula: "Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]",
    units: Callable[[Values, Values], GradientErrors],
    fmt: Format,
) -> GradientErrors:
    """Returns what ``units`` makes of the exact gradient and the distances from it.

    ``formula`` gives a row's gradient from its softmax and its row of ``grads``. Both are taken in float64 first: in
    narrower formats its own error is far below each limit. Rows that this leaves in doubt, and all rows of float64, are
    computed from the ``proof`` in rational numbers, and rounded once.
    """
    with np.errstate(all="ignore"):
        exact = np.array([formula(*row) for row in zip(probabilities, grads, strict=True)]).reshape(found.shape)
        differences = np.abs(found - exact)
    differences[np.isnan(differences)] = np.inf
    judged = units(exact, differences)
    rows = np.arange(len(found)) if fmt == FLOAT64 else judged.doubtful
    if not rows.size:
        return judged
    exact[rows], differences[rows] = _rationally(found[rows], grads[rows], proof(), rows, formula)
    return units(exact, differences)


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
    scale: Callable[[Values, Values, Format], Values] | None = None,
) -> Values:
    """Returns the largest absolute error of the outputs by an operation's bound; a masked one is exact."""
    exact = scaled(
        answer, fmt, None if scale is None else np.broadcast_to(scale(logits, answer.values, fmt), logits.shape)
    )
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
