"""The gradients of attention by queries, keys and values, exactly, and the error that a right backward may make.

Derived in docs/bounds.md, section 26.
"""

from typing import NamedTuple

import numpy as np

from oracles.attention import Heads, logsumexp
from oracles.formats import Format, Values
from softcheck.operations import softcap
from softcheck.operations.attention_bounds import (
    error_of_logarithm_and_sink,
    error_of_logarithm_and_weights,
    error_of_slope,
    errors,
)
from softcheck.operations.bounds import LARGEST_EXPONENT, Model
from softcheck.operations.heads import split
from softcheck.operations.log_softmax import half_ulp

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

    of_weight = (
        np.expm1(np.minimum(error_of_logarithm_and_weights(heads, model), LARGEST_EXPONENT)) + stored + _OF_FLOAT64
    )
    of_keys = grad @ heads.v.transpose(0, 2, 1)
    sizes = size_of_grad @ np.abs(heads.v).transpose(0, 2, 1)
    answers = weights @ heads.v
    mean = (grad * answers).sum(axis=2, keepdims=True)
    off = errors(heads, model, fmt)
    off = off + half_ulp(np.abs(answers) + off, fmt)
    # A backward takes the mean from the rounded answer, or from weights and their gradients.
    of_mean = (size_of_grad * (off + gamma(dimension) * np.abs(answers))).sum(axis=2, keepdims=True)
    of_mean = of_mean + (weights * (of_weight + gamma(keys) + gamma(dimension)) * sizes).sum(axis=2, keepdims=True)
    scores = weights * (of_keys - mean)
    terms = weights * (np.abs(of_keys) + np.abs(mean))
    of_scores = of_weight * terms + weights * (1 + of_weight) * (gamma(dimension) * sizes + of_mean)
    of_scores = of_scores + (stored + _ROUNDINGS * unit) * (np.abs(scores) + of_scores)

    of_bias, off_bias = scores, of_scores
    if heads.softcap:
        slope = softcap.slope(heads.products * heads.scale, heads.softcap)
        of_scores = slope * of_scores + error_of_slope(heads, model) * (np.abs(scores) + of_scores)
        scores = slope * scores

    def judged(exact: Values, allowed: Values) -> OperandGradient:
        least = fmt.least_normal * max(queries, keys) * float(max(1.0, np.abs(heads.q).max(), np.abs(heads.k).max()))
        allowed = allowed + least
        return OperandGradient(exact, allowed + half_ulp(np.abs(exact) + allowed, fmt))

    scale = heads.scale
    transposed, of_transposed = scores.transpose(0, 2, 1), of_scores.transpose(0, 2, 1)
    sums = {
        "q": (scale * scores, scale * of_scores, heads.k, gamma(keys)),
        "k": (scale * transposed, scale * of_transposed, heads.q, gamma(queries)),
        "v": (weights.transpose(0, 2, 1), (of_weight * weights).transpose(0, 2, 1), grad, gamma(queries)),
    }
    found = {
        name: judged(left @ right, (off_left + added * (np.abs(left) + off_left)) @ np.abs(right))
        for name, (left, off_left, right, added) in sums.items()
    }
    if heads.bias is not None:
        found["bias"] = judged(of_bias, off_bias)
    if np.isfinite(heads.sink):
        of_sink = (
            np.expm1(np.minimum(error_of_logarithm_and_sink(heads, model), LARGEST_EXPONENT)) + stored + _OF_FLOAT64
        )
        share = np.exp(heads.sink - logsumexp(heads).high.reshape(mean.shape))
        terms = share * mean
        off = np.abs(terms) * of_sink + share * (1 + of_sink) * of_mean
        off = off + (stored + _ROUNDINGS * unit + gamma(queries * len(heads.q))) * (np.abs(terms) + off)
        batch, of_batch = split(len(heads.q))
        exact, allowed = (
            part.reshape(batch, of_batch, groups, -1).sum(axis=(0, 3)).reshape(-1, 1, 1) for part in (-terms, off)
        )
        found["sinks"] = judged(exact, allowed)
    return found
