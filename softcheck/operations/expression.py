"""Formulas of errors that stand once, for numpy's arrays and torch's tensors alike, all of them float64.

docs/bounds.md derives them: sections 4 to 6, 19, 22 and 25. Importing this loads no torch.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

from oracles.formats import FLOAT64, Format
from softcheck.operations.model import LARGEST_EXPONENT, VANISHED, Model, depth

Array: TypeAlias = Any
"""A numpy array or a torch tensor of float64."""

LOGARITHM, NEXT_TO_ONE = 6.0, 3.0
"""Relative and absolute error of a logarithm in rho. lg2.approx is within 2^-22 absolutely for arguments from 0.5 to 2 and relatively
elsewhere (PTX ISA), which is 4 rho of base 2 and 2.8 of base e; the product with log(2) rounds twice. Logarithms of libraries
are within 1 ULP, 2 rho."""

SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""

CENTRED = 8 * 2.0**-53
"""Error of a softmax's backward that takes one number from all of a row's gradients first, in float64, in units of y max |g|."""

_EXPONENT = 0x7FF << 52


def module_of(array: Array) -> Any:
    """Returns numpy for its arrays, and torch for tensors."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def quiet(values: Array) -> AbstractContextManager[None]:
    """Returns a context in which arrays overflow, underflow and have no answer without a warning, as tensors do."""
    is_array = isinstance(values, np.ndarray)
    return np.errstate(over="ignore", under="ignore", invalid="ignore") if is_array else nullcontext()


def like(values: Array, array: Any) -> Array:
    """Returns one of numpy's arrays where the values lie."""
    return array if isinstance(values, np.ndarray) else module_of(values).from_numpy(array).to(values.device)


def largest(values: Array) -> Array:
    """Returns the maximum of each row, [rows, 1]; -inf without columns, NaN with a NaN."""
    if isinstance(values, np.ndarray):
        return values.max(axis=1, keepdims=True, initial=-np.inf)
    return values.amax(dim=1, keepdim=True)


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
