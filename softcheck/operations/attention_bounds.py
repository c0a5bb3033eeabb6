"""The largest error that an arithmetic can make in attention and in its gradients, which stand here exactly; docs/bounds.md#attention."""

import math
from typing import NamedTuple

import numpy as np

from oracles.arrays import Array, largest, module_of
from oracles.attention import Heads
from oracles.formats import FLOAT32, Format, Values
from oracles.reference import no_nan
from softcheck.operations.bounds import LARGEST_EXPONENT, SECOND_ORDER, VANISHED, Model, depth, half_ulp
from softcheck.operations.heads import split
from softcheck.operations.options import slope

TRUNCATED = 4.0
"""Largest error of one addition in a tensor core, in units of u times the sum of all terms' sizes: the core aligns its terms and truncates."""
_TILE = 16
"""Least number of keys between two rescalings of a running sum, beyond the first ten."""
SCALED = 4.0
"""Roundings of a scaled score, as of any scaled logit."""
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


def lost(heads: Heads, model: Model, fmt: Format) -> Array:
    """Largest part of an answer that weights too small for their type had, [heads, 1 or queries, dimension]."""
    sizes, xp = abs(heads.v), module_of(heads.v)
    found = underflow(model) * heads.k.shape[1] * largest(sizes, 1, 0.0)
    if fmt.width != 16:
        return found
    return found + 0.5 * fmt.least_subnormal * (xp.where(heads.visible, xp.ones_like(heads.sizes), 0.0) @ sizes)


def error_of_slope(heads: Heads, model: Model) -> Array:
    """Largest error of 1 - tanh^2, the derivative of a soft cap's scores, [heads, queries, keys]."""
    tangent = abs(np.tanh(heads.products * heads.scale / heads.softcap))
    off = _of_scores(heads, model) / heads.softcap
    return (2 * tangent + off) * off + SCALED * model.roundoff


def _of_scores(heads: Heads, model: Model) -> Array:
    """Largest error of a score, [heads, queries, keys]."""
    xp = module_of(heads.q)
    products = TRUNCATED * model.roundoff * (heads.terms + (heads.terms > 0)) + 2 * model.products
    of_product = products * heads.scale * heads.sizes
    raw = abs(heads.products) * heads.scale
    capped = CAPPED * model.roundoff * heads.softcap
    rounded = (SCALED if heads.bias is None else BIASED) * model.roundoff * (1 + model.exponent)
    size = xp.clip(raw, None, heads.softcap) if heads.softcap else raw
    scaled = rounded * (size if heads.bias is None else size + abs(heads.bias))
    return xp.where(heads.visible, of_product + scaled + capped, 0.0)


def _of_weights(heads: Heads, model: Model) -> tuple[Array, Array]:
    """Largest errors of the weights' logarithms, [heads, queries, keys], and of that of their sum, [heads, queries, 1]."""
    of_score, xp = _of_scores(heads, model), module_of(heads.q)
    at_top = largest(of_score, 2, 0.0)
    distance = xp.where(heads.visible, xp.clip(heads.top - heads.scores, None, VANISHED), 0.0)
    log_errors = of_score + at_top + model.exponent * distance + model.exponential
    return log_errors, heads.growth(log_errors, _of_sink(heads, model, at_top))


def _of_sink(heads: Heads, model: Model, at_top: Array) -> Array:
    """Largest error of the logarithm of a sink's weight relative to what is subtracted, a score that errs by ``at_top`` or the sink, [heads, queries, 1]."""
    xp = module_of(heads.q)
    far = xp.clip(abs(heads.sink - subtracted(heads)), None, VANISHED)
    return xp.where(_has_far_sink(heads), 0.0, at_top) + model.exponential + model.exponent * far


def error_of_logarithm_and_weights(heads: Heads, model: Model) -> Array:
    """Largest error of the logarithm of each normalised weight that is taken from a rounded log-sum-exp, [heads, queries, keys]."""
    return _of_weights(heads, model)[0] + errors_of_logarithm(heads, model)


def error_of_logarithm_and_sink(heads: Heads, model: Model) -> Array:
    """The same of a sink's normalised weight, [heads, queries, 1]."""
    at_top = largest(_of_scores(heads, model), 2, 0.0)
    return _of_sink(heads, model, at_top) + errors_of_logarithm(heads, model)


def error_of_total(keys: int, model: Model) -> float:
    """Relative error of a sum of weights that all weights' own errors leave: additions, and rescalings."""
    added = (depth(keys, model.lanes) + steps(keys)) * model.addition
    return added + steps(keys) * (model.exponential + model.roundoff) + keys * model.underflow


def subtracted(heads: Heads) -> Array:
    """What kernels subtract from all exponents, [heads, queries, 1]: the largest score, or a sink far above it."""
    return module_of(heads.q).where(_has_far_sink(heads), heads.sink, heads.top)


def _has_far_sink(heads: Heads) -> Array:
    """Queries whose sink is so far above their scores, [heads, queries, 1]."""
    return heads.sink - heads.top > FAR_SINK


def errors_of_logarithm(heads: Heads, model: Model) -> Array:
    """Largest error of each query's log-sum-exp in base e before its last rounding, [heads, queries, 1]."""
    of_sum = _of_weights(heads, model)[1] + error_of_total(heads.k.shape[1], model)
    return (of_sum + rounding_of_logarithm(heads, model)) * SECOND_ORDER + model.underflow


def rounding_of_logarithm(heads: Heads, model: Model) -> Array:
    """The part of a log-sum-exp's error that all weights taken from it share, and that no division takes away, [heads, queries, 1]."""
    top = subtracted(heads)
    size = 1.0 + np.log1p(heads.k.shape[1]) + abs(top) + module_of(top).clip(heads.sink - top, 0.0, None)
    return LOGARITHM * model.roundoff * size


def errors(heads: Heads, model: Model, fmt: Format) -> Array:
    """Largest error of each number before its last rounding, [heads, queries, dimension]."""
    log_errors, of_sum = _of_weights(heads, model)
    of_weights = heads.weighted(log_errors + of_sum)
    size = heads.sizes_of_values + of_weights
    of_sums = error_of_sums(heads.k.shape[1], model, fmt) * size
    return (of_weights + of_sums) * SECOND_ORDER + lost(heads, model, fmt)


_ROUNDINGS = 16.0
"""Roundings of products, differences, scales and of a row's log-sum-exp."""
_OF_FLOAT64 = 2.0**-44
"""Largest error of the exact gradients themselves, relative to their terms: a few thousand float64 roundings."""


class OperandGradient(NamedTuple):
    """A gradient and the largest error of one, float64 of the operand's shape."""

    exact: Values
    allowed: Values


def gradients(heads: Heads, grad: Values, model: Model, fmt: Format, groups: int = 1) -> dict[str, OperandGradient]:
    """Returns the gradients of sum(grad * o) by q, k, v, a bias and sinks, ``grad`` being [heads, queries, dimension], in base e.

    Each query sees a key. A head has the queries of ``groups`` query heads, of which each has a sink: their gradients are
    [query heads, 1, 1], the sums over all batches.
    """
    unit, stored = model.roundoff, fmt.unit_roundoff if fmt.width == 16 else 0.0
    queries, dimension = grad.shape[1:]
    keys = heads.k.shape[1]
    weights, size_of_grad = heads.softmax.weights, np.abs(grad)

    def gamma(terms: int) -> float:
        return (TRUNCATED * terms + _ROUNDINGS) * unit + 2 * model.products

    # Absolute errors of the weights.
    of_weight = heads.grown(error_of_logarithm_and_weights(heads, model)) + (stored + _OF_FLOAT64) * weights
    of_keys = grad @ heads.v.transpose(0, 2, 1)
    sizes = size_of_grad @ np.abs(heads.v).transpose(0, 2, 1)
    answers = weights @ heads.v
    mean = (grad * answers).sum(axis=2, keepdims=True)
    off = errors(heads, model, fmt)
    off = off + half_ulp(np.abs(answers) + off, fmt)
    # A backward takes the mean from the rounded answer, or from weights and their gradients.
    of_mean = (size_of_grad * (off + gamma(dimension) * np.abs(answers))).sum(axis=2, keepdims=True)
    of_mean = of_mean + ((of_weight + weights * (gamma(keys) + gamma(dimension))) * sizes).sum(axis=2, keepdims=True)
    scores = weights * (of_keys - mean)
    # A weight, and a score's gradient, may be flushed in float32, or lose half a subnormal where it is rounded to 16 bits.
    flushed = min(fmt.least_normal, FLOAT32.least_normal)
    lost = flushed + (0.5 * fmt.least_subnormal if fmt.width == 16 else 0.0)
    of_scores = (of_weight + lost) * (np.abs(of_keys) + np.abs(mean))
    of_scores = of_scores + (weights + of_weight) * (gamma(dimension) * sizes + of_mean)
    of_scores = of_scores + (stored + _ROUNDINGS * unit) * (np.abs(scores) + of_scores)

    of_bias, off_bias = scores, of_scores + lost
    if heads.softcap:
        of_cap = slope(heads.products * heads.scale, heads.softcap)
        of_scores = of_cap * of_scores + error_of_slope(heads, model) * (np.abs(scores) + of_scores)
        scores = of_cap * scores

    def judged(exact: Values, allowed: Values) -> OperandGradient:
        allowed = allowed + flushed * max(queries, keys)
        no_nan("a gradient's bound", allowed)
        return OperandGradient(exact, allowed + half_ulp(np.abs(exact) + allowed, fmt))

    scaled, of_scaled = heads.scale * scores, np.where(heads.visible, heads.scale * of_scores + lost, 0.0)
    of_values = np.where(heads.visible, of_weight + lost, 0.0)
    sums = {
        "q": (scaled, of_scaled, heads.k, gamma(keys)),
        "k": (scaled.transpose(0, 2, 1), of_scaled.transpose(0, 2, 1), heads.q, gamma(queries)),
        "v": (weights.transpose(0, 2, 1), of_values.transpose(0, 2, 1), grad, gamma(queries)),
    }

    found = {}
    for name, (left, off_left, right, added) in sums.items():
        allowed = (off_left + added * (np.abs(left) + off_left)) @ np.abs(right)
        if name != "q" and groups > 1 and fmt.width == 16:
            allowed = _expanded(left, right, allowed, groups, fmt)
        found[name] = judged(left @ right, allowed)
    if heads.bias is not None:
        found["bias"] = judged(of_bias, off_bias)
    if np.isfinite(heads.sink):
        share = heads.softmax.sink
        grown: Values = np.expm1(np.minimum(error_of_logarithm_and_sink(heads, model), LARGEST_EXPONENT))
        # A sink far above all scores is the log-sum-exp itself, and its weight 1: no right one is more than 2, however large both are.
        grown = np.where(share == 1, np.minimum(grown, 1.0), grown)
        of_sink: Values = share * (grown + stored + _OF_FLOAT64)
        off = np.abs(mean) * of_sink + (share + of_sink) * of_mean + lost * (1 + np.abs(mean))
        terms = share * mean
        off = off + (stored + _ROUNDINGS * unit + gamma(queries * len(heads.q))) * (np.abs(terms) + off)
        batch, of_batch = split(len(heads.q))
        exact, allowed = (
            part.reshape(batch, of_batch, groups, -1).sum(axis=(0, 3)).reshape(-1, 1, 1) for part in (-terms, off)
        )
        found["sinks"] = judged(exact, allowed)
    return found


def _expanded(left: Values, right: Values, allowed: Values, groups: int, fmt: Format) -> Values:
    """The errors of gradients by keys that are repeated for each query head: each head's is rounded to 16 bits as their sum is."""
    by_query_head = (np.split(left, groups, axis=2), np.split(right, groups, axis=1))
    sizes = sum(np.abs(one @ other) for one, other in zip(*by_query_head, strict=True))
    return allowed + groups * (fmt.unit_roundoff * (sizes + allowed) + 0.5 * fmt.least_subnormal)
