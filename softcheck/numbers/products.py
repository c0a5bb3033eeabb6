"""Sums of products of numbers with errors, along any axes, and soft caps; docs/bounds.md#attention proves them."""

from dataclasses import replace

from oracles.arrays import Array, module_of
from softcheck.numbers.expression import Number
from softcheck.numbers.model import Model

TRUNCATED = 4.0
"""Largest error of an addition in a tensor core, which aligns its terms and truncates: in rho times all terms' sizes."""
BY_THE_WAY = 16.0
"""Roundings of products, differences, scales and merges on the way of a sum, each relative to the terms' sizes."""
CAPPED = 8.0
"""Roundings of a soft cap's hyperbolic tangent and its products, relative to the cap."""


def of_products(terms: Array | float, model: Model, by_the_way: float = 0.0) -> Array | float:
    """Returns the error of a sum of products, in any order or in a tensor core, relative to the sum of their sizes."""
    return (TRUNCATED * terms + by_the_way) * model.roundoff + 2 * model.products


def dot(left: Number, right: Number) -> Number:
    """Returns the matrix products of [..., rows, terms] and [..., terms, columns]."""
    size, off, most = abs(left.value), left.error, abs(right.value) + right.error
    allowed = (off + of_products(size.shape[-1], left.model, BY_THE_WAY) * (size + off)) @ most
    if not isinstance(right.error, float):
        allowed = allowed + size @ right.error
    return Number(left.value @ right.value, left.model, allowed)


def times(left: Number, right: Number) -> Number:
    """Returns the products of two arrays' elements, whose roundings are counted elsewhere."""
    off = left.error * (abs(right.value) + right.error) + abs(left.value) * right.error
    return Number(left.value * right.value, left.model, off)


def summed(x: Number) -> Number:
    """Returns the sums of products over the last axis, which is kept."""
    off = x.error + of_products(x.value.shape[-1], x.model, BY_THE_WAY) * (abs(x.value) + x.error)
    return Number(x.value.sum(axis=-1, keepdims=True), x.model, off.sum(axis=-1, keepdims=True))


def transposed(x: Number) -> Number:
    """Returns the matrices with their last two axes swapped."""
    return Number(
        x.value.swapaxes(-1, -2), x.model, x.error if isinstance(x.error, float) else x.error.swapaxes(-1, -2)
    )


def capped(x: Number, cap: float) -> Number:
    """Returns cap * tanh(x / cap), whose relative error is no larger than that of x, since |t tanh'(t)| <= |tanh t|."""
    value = cap * module_of(x.value).tanh(x.value / cap)
    return replace(x, value=value, off=x.off + CAPPED * x.model.roundoff * cap)
