"""The largest error that an arithmetic can make in attention, derived in docs/bounds.md, section 26."""

import numpy as np

from oracles.attention import Heads
from oracles.formats import FLOAT32, Format, Values
from softcheck.operations.bounds import LARGEST_EXPONENT, VANISHED, Model, depth

_SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""
_TRUNCATED = 4.0
"""Error of one addition in a tensor core in units of u, of the sum of all terms' sizes: it truncates, and aligns what it adds."""
_TILE = 16
"""Least number of keys between two rescalings of a running sum, beyond the first ten."""
_SCALED = 4.0
"""Roundings of a scaled score, as in section 21."""
_MERGED = 16.0
"""Roundings of a merge of partial answers, each relative to the answer's size."""
_CAPPED = 8.0
"""Roundings of a soft cap's hyperbolic tangent and its products, relative to the cap."""


def _steps(keys: int) -> float:
    """Rescalings of a running maximum, or merged parts."""
    return -(-keys // _TILE) + 10.0


def error_of_sums(heads: Heads, model: Model, fmt: Format) -> float:
    """Relative error of numerators and denominators that all weights' own errors leave: additions, rescalings, weights in 16 bits."""
    keys = heads.k.shape[1]
    steps = _steps(keys) * (model.exponential + model.roundoff)
    summed = (depth(keys, model.lanes) + _steps(keys)) * model.addition + model.denominator + model.division
    summed += keys * model.underflow
    added = (_TRUNCATED * keys + _MERGED) * model.roundoff
    stored = fmt.unit_roundoff if fmt.width == 16 else 0.0
    return float((2 * steps + summed + added + stored + 2 * model.products) * _SECOND_ORDER)


def lost(heads: Heads, model: Model, fmt: Format) -> Values:
    """Largest part of an answer that weights too small for their type had, [heads, 1 or queries, dimension]."""
    sizes = np.abs(heads.v)
    # Attention kernels flush what is below the least normal number of float32, by their compilers' options.
    underflow = max(model.underflow, FLOAT32.least_normal)
    found: Values = underflow * heads.k.shape[1] * sizes.max(axis=1, keepdims=True, initial=0.0)
    return found + 0.5 * fmt.least_subnormal * (heads.visible.astype(np.float64) @ sizes) if fmt.width == 16 else found


def errors(heads: Heads, model: Model, fmt: Format) -> Values:
    """Largest error of each number before its last rounding, [heads, queries, dimension]."""
    products = _TRUNCATED * model.roundoff * (heads.terms + (heads.terms > 0)) + 2 * model.products
    of_product = products * heads.scale * heads.sizes
    raw = np.abs(heads.products) * heads.scale
    capped = _CAPPED * model.roundoff * heads.softcap
    rounded = _SCALED * model.roundoff * (1 + model.exponent)
    scaled = rounded * (np.minimum(raw, heads.softcap) if heads.softcap else raw)
    of_score = np.where(heads.visible, of_product + scaled + capped, 0.0)
    at_top = of_score.max(axis=2, keepdims=True, initial=0.0)
    distance = np.where(heads.visible, np.minimum(heads.top - heads.scores, VANISHED), 0.0)
    log_errors = of_score + at_top + model.exponent * distance + model.exponential
    mean = (heads.softmax.weights * np.expm1(np.minimum(log_errors, LARGEST_EXPONENT))).sum(axis=2, keepdims=True)
    if np.isfinite(heads.sink):
        of_sink = at_top + model.exponential + model.exponent * np.minimum(np.abs(heads.sink - heads.top), VANISHED)
        left = 1.0 - heads.softmax.weights.sum(axis=2, keepdims=True)
        mean = mean + left * np.expm1(np.minimum(of_sink, LARGEST_EXPONENT))
    log_errors = log_errors + np.log1p(mean)
    # A weight that is 0 in float64 may be seen where the score's error is as large as its distance.
    unseen = heads.visible & (heads.softmax.weights == 0)
    reachable = np.where(unseen, np.exp(np.minimum(log_errors - distance, 0.0)), 0.0) @ np.abs(heads.v)
    of_weights = heads.weighted(log_errors) + reachable
    size = heads.sizes_of_values + of_weights
    found: Values = (of_weights + error_of_sums(heads, model, fmt) * size) * _SECOND_ORDER + lost(heads, model, fmt)
    return found
