"""The largest error that an arithmetic can make in attention, derived in docs/bounds.md, section 26."""

import math

import numpy as np
from numpy.typing import NDArray

from oracles.attention import Heads
from oracles.formats import FLOAT32, Format, Values
from softcheck.operations.bounds import VANISHED, Model, depth

SECOND_ORDER = 1.0 + 2.0**-8
"""Covers products of errors, each of which is below 2^-10."""
TRUNCATED = 4.0
"""Largest error of one addition in a tensor core, in units of u times the sum of all terms' sizes: the core aligns its terms and truncates."""
_TILE = 16
"""Least number of keys between two rescalings of a running sum, beyond the first ten."""
SCALED = 4.0
"""Roundings of a scaled score, as in section 21."""
BIASED = 5.0
"""Roundings of a score that a bias is added to, of the sizes of both: one more than those of a scaled score."""
_MERGED = 16.0
"""Roundings of a merge of partial answers, each relative to the answer's size."""
LOGARITHM = 8.0
"""Roundings of a logarithm, of its sum with the maximum and of products with log2(e) or log(2), of |m| + L + 1."""
CAPPED = 8.0
"""Roundings of a soft cap's hyperbolic tangent and its products, relative to the cap."""

FAR_SINK = math.log(FLOAT32.max)
"""Distance of a sink above all scores from which its exponential less the largest score overflows: a kernel must subtract the sink."""


def steps(keys: int) -> float:
    """Rescalings of a running maximum, or merged parts."""
    return -(-keys // _TILE) + 10.0


def error_of_sums(keys: int, model: Model, fmt: Format) -> float:
    """Relative error of numerators and denominators that all weights' own errors leave: additions, rescalings, weights in 16 bits."""
    rescalings = steps(keys) * (model.exponential + model.roundoff)
    summed = (depth(keys, model.lanes) + steps(keys)) * model.addition + model.denominator + model.division
    summed += keys * model.underflow
    added = (TRUNCATED * keys + _MERGED) * model.roundoff
    stored = fmt.unit_roundoff if fmt.width == 16 else 0.0
    return float((2 * rescalings + summed + added + stored + 2 * model.products) * SECOND_ORDER)


def underflow(model: Model) -> float:
    """Largest weight that may be lost: attention kernels flush below float32's least normal number, by their compilers' options."""
    return max(model.underflow, FLOAT32.least_normal)


def lost(heads: Heads, model: Model, fmt: Format) -> Values:
    """Largest part of an answer that weights too small for their type had, [heads, 1 or queries, dimension]."""
    sizes = np.abs(heads.v)
    found: Values = underflow(model) * heads.k.shape[1] * sizes.max(axis=1, keepdims=True, initial=0.0)
    return found + 0.5 * fmt.least_subnormal * (heads.visible.astype(np.float64) @ sizes) if fmt.width == 16 else found


def error_of_slope(heads: Heads, model: Model) -> Values:
    """Largest error of 1 - tanh^2, the derivative of a soft cap's scores, [heads, queries, keys]."""
    tangent = np.abs(np.tanh(heads.products * heads.scale / heads.softcap))
    off = _of_scores(heads, model) / heads.softcap
    found: Values = (2 * tangent + off) * off + SCALED * model.roundoff
    return found


def _of_scores(heads: Heads, model: Model) -> Values:
    """Largest error of a score, [heads, queries, keys]."""
    products = TRUNCATED * model.roundoff * (heads.terms + (heads.terms > 0)) + 2 * model.products
    of_product = products * heads.scale * heads.sizes
    raw = np.abs(heads.products) * heads.scale
    capped = CAPPED * model.roundoff * heads.softcap
    rounded = (SCALED if heads.bias is None else BIASED) * model.roundoff * (1 + model.exponent)
    size = np.minimum(raw, heads.softcap) if heads.softcap else raw
    scaled = rounded * (size if heads.bias is None else size + np.abs(heads.bias))
    return np.where(heads.visible, of_product + scaled + capped, 0.0)


def _of_weights(heads: Heads, model: Model) -> tuple[Values, Values]:
    """Largest errors of the weights' logarithms, [heads, queries, keys], and of that of their sum, [heads, queries, 1]."""
    of_score = _of_scores(heads, model)
    at_top = of_score.max(axis=2, keepdims=True, initial=0.0)
    distance = np.where(heads.visible, np.minimum(heads.top - heads.scores, VANISHED), 0.0)
    log_errors = of_score + at_top + model.exponent * distance + model.exponential
    return log_errors, heads.growth(log_errors, _of_sink(heads, model, at_top))


def _of_sink(heads: Heads, model: Model, at_top: Values) -> Values:
    """Largest error of the logarithm of a sink's weight relative to what is subtracted, a score that errs by ``at_top`` or the sink, [heads, queries, 1]."""
    far = np.minimum(np.abs(heads.sink - subtracted(heads)), VANISHED)
    found: Values = np.where(_has_far_sink(heads), 0.0, at_top) + model.exponential + model.exponent * far
    return found


def error_of_logarithm_and_weights(heads: Heads, model: Model) -> Values:
    """Largest error of the logarithm of each normalised weight that is taken from a rounded log-sum-exp, [heads, queries, keys]."""
    log_errors, _ = _of_weights(heads, model)
    found: Values = log_errors + errors_of_logarithm(heads, model)
    return found


def error_of_logarithm_and_sink(heads: Heads, model: Model) -> Values:
    """The same of a sink's normalised weight, [heads, queries, 1]."""
    at_top = _of_scores(heads, model).max(axis=2, keepdims=True, initial=0.0)
    found: Values = _of_sink(heads, model, at_top) + errors_of_logarithm(heads, model)
    return found


def error_of_total(keys: int, model: Model) -> float:
    """Relative error of a sum of weights that all weights' own errors leave: additions, and rescalings."""
    added = (depth(keys, model.lanes) + steps(keys)) * model.addition
    return added + steps(keys) * (model.exponential + model.roundoff) + keys * model.underflow


def subtracted(heads: Heads) -> Values:
    """What kernels subtract from all exponents, [heads, queries, 1]: the largest score, or a sink far above it."""
    return np.where(_has_far_sink(heads), heads.sink, heads.top)


def _has_far_sink(heads: Heads) -> NDArray[np.bool_]:
    """Queries whose sink is so far above their scores, [heads, queries, 1]."""
    return np.asarray(heads.sink - heads.top > FAR_SINK)


def errors_of_logarithm(heads: Heads, model: Model) -> Values:
    """Largest error of each query's log-sum-exp in base e before its last rounding, [heads, queries, 1]."""
    keys = heads.k.shape[1]
    of_sum = _of_weights(heads, model)[1] + error_of_total(keys, model)
    top = subtracted(heads)
    size = 1.0 + np.log1p(keys) + np.abs(top) + np.maximum(0.0, heads.sink - top)
    found: Values = (of_sum + LOGARITHM * model.roundoff * size) * SECOND_ORDER + model.underflow
    return found


def errors(heads: Heads, model: Model, fmt: Format) -> Values:
    """Largest error of each number before its last rounding, [heads, queries, dimension]."""
    log_errors, of_sum = _of_weights(heads, model)
    of_weights = heads.weighted(log_errors + of_sum)
    size = heads.sizes_of_values + of_weights
    found: Values = (of_weights + error_of_sums(heads.k.shape[1], model, fmt) * size) * SECOND_ORDER + lost(
        heads, model, fmt
    )
    return found
