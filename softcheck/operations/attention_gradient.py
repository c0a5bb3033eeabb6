"""The gradients of attention by queries, keys and values, exactly, and the error that a right backward may make.

Derived in docs/bounds.md, section 26.
"""

from typing import NamedTuple

import numpy as np

from oracles.attention import Heads
from oracles.formats import FLOAT32, Format, Values
from oracles.reference import no_nan
from softcheck.operations import softcap
from softcheck.operations.attention_bounds import (
    error_of_logarithm_and_sink,
    error_of_logarithm_and_weights,
    error_of_slope,
    errors,
)
from softcheck.operations.bounds import LARGEST_EXPONENT, Model
from softcheck.operations.expression import half_ulp
from softcheck.operations.heads import split

_TRUNCATED = 4.0
"""Error of one addition in a tensor core in units of u, as in the forward."""
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
        return (_TRUNCATED * terms + _ROUNDINGS) * unit + 2 * model.products

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
        slope = softcap.slope(heads.products * heads.scale, heads.softcap)
        of_scores = slope * of_scores + error_of_slope(heads, model) * (np.abs(scores) + of_scores)
        scores = slope * scores

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
        grown = np.expm1(np.minimum(error_of_logarithm_and_sink(heads, model), LARGEST_EXPONENT))
        # A sink far above all scores is the log-sum-exp itself, and its weight 1: no right one is more than 2, however large both are.
        grown = np.where(share == 1, np.minimum(grown, 1.0), grown)
        of_sink = share * (grown + stored + _OF_FLOAT64)
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
