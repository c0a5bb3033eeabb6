"""Backwards of softmax and of its logarithm for float64 operands: double words with their own error, and Arb with an enclosure.

For an output y and its gradient g, with n columns, softmax's is y (g - S), S = sum y g, and the logarithm's is g - e^y G, G = sum g.
Both cancel, so errors are relative to the sizes y (|g| + sum |y g|) and |g| + e^y sum |g|. With u = 2^-53 and h = ceil(log2 n):

A product y g is exact, an exponential within 13 u^2 (``oracles.double_double``), each addition within 3.1 u^2 of its terms, of which
one term passes through h, and a product of double words within 8.1 u^2. So S errs by 3.1 h u^2 of its size, and the result by
(3.1 h + 3.1 + 8.1) u^2, or for the logarithm by (3.1 h + 13 + 8.1 + 3.1) u^2 of the size. ``32 (1 + h) u^2`` covers both.
What underflows on the way is below 2^-1000 for n |g| up to 2^60.
"""

import flint
import numpy as np

from oracles import _double_word as dw
from oracles._double_word import DoubleWord
from oracles._enclosure import Ball, halves
from oracles.double_double import UNIT_ROUNDOFF, _exponential
from oracles.formats import Values
from oracles.reference import Reference, stated

LARGEST = 2.0**40
"""Largest |y| and |g| that ``backward`` takes."""

_PRECISION = 160


def backward(y: Values, g: Values, *, is_logarithm: bool) -> Reference:
    """The gradient of each row's logits, [rows, columns], for finite operands of the same shape up to ``LARGEST``."""
    rows, columns = y.shape
    if not y.size:
        return stated(np.zeros(y.shape), np.zeros(y.shape))
    of_g = DoubleWord(np.ascontiguousarray(g.T), np.zeros((columns, rows)))
    of_y = DoubleWord(np.ascontiguousarray(y.T), np.zeros((columns, rows)))
    with np.errstate(under="ignore"):
        if is_logarithm:
            power, exponent, near = _exponential(of_y.high, np.zeros(rows))
            p = DoubleWord(*(np.where(near, np.ldexp(part, exponent), 0.0) for part in power))
            product = dw.multiply(p, DoubleWord(*np.broadcast_arrays(*dw.total(of_g), p.high)[:2]))
            found = dw.add(of_g, DoubleWord(-product.high, -product.low))
            size = np.abs(g) + p.high.T * np.abs(g).sum(axis=1, keepdims=True)
        else:
            total = dw.total(dw.two_product(of_y.high, of_g.high))
            found = dw.multiply(of_y, dw.add(of_g, DoubleWord(-total.high, -total.low)))
            size = np.abs(y) * (np.abs(g) + np.abs(y * g).sum(axis=1, keepdims=True))
        off = 32 * (1 + (columns - 1).bit_length()) * UNIT_ROUNDOFF**2 * size
    return stated(found.high.T, off, found.low.T, 2.0**-1000)


def backward_ball(y: Values, g: Values, *, is_logarithm: bool) -> Reference:
    """The same gradients enclosed by Arb, for finite operands of any size."""
    balls: list[Ball] = []
    with flint.ctx.workprec(_PRECISION):
        for outputs, grads in zip(y.tolist(), g.tolist(), strict=True):
            of_y, of_g = [flint.arb(one) for one in outputs], [flint.arb(one) for one in grads]
            if is_logarithm:
                total = sum(of_g, flint.arb(0))
                balls += [grad - one.exp() * total for one, grad in zip(of_y, of_g, strict=True)]
            else:
                total = sum((one * grad for one, grad in zip(of_y, of_g, strict=True)), flint.arb(0))
                balls += [one * (grad - total) for one, grad in zip(of_y, of_g, strict=True)]
        high, low, off = halves(balls, y.shape)
    return stated(high, off, low, 2.0**-1070)
