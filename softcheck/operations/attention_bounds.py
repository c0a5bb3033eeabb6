"""Attention, its log-sum-exp and its gradients as formulas of numbers with errors; docs/bounds.md#attention.

float64's own answers are those of the same formulas for an arithmetic of float64, with its errors.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oracles.arrays import Array, largest, module_of
from oracles.attention import Heads
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import no_nan
from softcheck.numbers.expression import Number, Positive, half_ulp
from softcheck.numbers.model import EXACT, Model, depth
from softcheck.numbers.products import BY_THE_WAY, capped, dot, of_products, summed, times, transposed
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.bounds import SECOND_ORDER
from softcheck.operations.heads import split

IN_FLOAT64 = model(Arithmetic(lanes=1), FLOAT64)
"""The arithmetic of exact answers, which adds up in any order."""
SCALED = 4.0
"""Roundings of a scaled score, as of any scaled logit, and of a bias that is brought to base 2 as the score is."""
_OF_LOGARITHM = 8.0
"""Roundings of a logarithm, of its sum with the maximum and of products with log2(e) or log(2), of |m| + L + 1."""
_TILE = 16
"""Least number of keys between two rescalings of a running sum, beyond the first ten."""

FAR_SINK = math.log(FLOAT32.max)
"""Distance above all scores from which a sink's exponential overflows, so that a kernel must subtract the sink."""


def _products(heads: Heads, model: Model) -> Number:
    """Products of queries and keys, whose additions of zeros are exact, as is one product alone."""
    terms = abs(module_of(heads.q).sign(heads.q)).sum(axis=-1, keepdims=True)
    return Number(heads.products, model, of_products(terms * (terms > 1), model) * heads.sizes)


def scores(heads: Heads, model: Model) -> Number:
    """Scores of all keys, seen or not, [heads, queries, keys]."""
    found = _products(heads, model).rounded(SCALED, heads.scale)
    if heads.softcap:
        found = capped(found, heads.softcap)
    return found if heads.bias is None else found + Number(heads.bias, model).rounded(SCALED)


def _subtracted(x: Number, heads: Heads) -> Number:
    """Numbers that kernels subtract from all exponents, [heads, queries, 1]: a sink far above all scores, or the largest score.

    Errors of scores may make another one the largest. Where a query sees nothing it is the sink, or 0 without one.
    """
    xp = module_of(heads.q)
    found, most, least = (
        largest(xp.where(heads.visible, each, -np.inf), 2) for each in (x.value, x.value + x.error, x.value - x.error)
    )
    is_seen = xp.isfinite(found)
    top = xp.where(is_seen, found, heads.sink if np.isfinite(heads.sink) else 0.0)
    is_far = heads.sink - top > FAR_SINK
    off = xp.where(is_far | ~is_seen, 0.0, xp.maximum(most - top, top - least))
    return Number(xp.where(is_far, heads.sink, top), x.model, off)


def subtracted(heads: Heads) -> Array:
    """The same number without errors."""
    return _subtracted(scores(heads, EXACT), heads).value


def softmax(heads: Heads, model: Model) -> tuple[Positive, Positive, Number]:
    """Takes exponentials of what lies below the largest score, or below a sink far above it.

    Returns them, [heads, queries, keys], 0 for keys that are not seen, and a sink's as one key more; their sum, 1 where
    there are none; and what was subtracted, whose own error is in the exponentials, both [heads, queries, 1].
    """
    xp, has_sink = module_of(heads.q), np.isfinite(heads.sink)
    if heads.softcap or has_sink or heads.bias is not None:
        x, factor = scores(heads, model), 1.0
    else:
        # The difference comes first, so that its product with the scale is all that float64 rounds of large scores.
        x, factor = _products(heads, model).rounded(0.0 if model is IN_FLOAT64 else SCALED), heads.scale
    top = _subtracted(x, heads)
    below = replace(x, value=xp.where(heads.visible, x.value, -np.inf)) - top
    if has_sink:
        sink = Number(xp.full_like(top.value, heads.sink), model) - top
        value, off = (xp.concatenate([getattr(each, name) for each in (below, sink)], 2) for name in ("value", "off"))
        below = replace(below, value=value, off=off)
    below = below.rounded(0.0, factor)
    powers = replace(below.exp(), exponent=below.value)
    total = powers.sum(_of_sums(heads.k.shape[1], model)[1])
    alone = total.value == 0
    total = replace(total, value=xp.where(alone, 1.0, total.value), log=xp.where(alone, 0.0, total.log))
    return powers, total, Number(top.value, model).rounded(0.0, factor)


def _of_sums(keys: int, model: Model) -> tuple[float, float]:
    """Relative errors of the rescalings of a running maximum or of merged parts, and of a sum of weights with them."""
    steps = -(-keys // _TILE) + 10.0
    rescaling = steps * (model.exponential + model.roundoff)
    added = (depth(keys, model.lanes) + steps) * model.addition + model.denominator
    return rescaling, rescaling + added + keys * model.underflow


def _stored(x: Number, fmt: Format, flushed: float = 0.0) -> Number:
    """Rounds factors to the 16 bits that tensor cores ask for; smaller ones than ``flushed`` may be lost.

    A weight is rounded before it is divided by the sum, so that its error is relative, whatever its place between powers of two.
    """
    size, xp = abs(x.value) + x.error, module_of(x.value)
    lost: Array = xp.clip(size, None, flushed)
    if fmt.width == 16:
        lost = lost + xp.minimum(size, xp.clip(size * fmt.unit_roundoff, fmt.least_subnormal / 2, None))
    return Number(x.value, x.model, x.error + lost)


def _part(x: Number, keys: slice) -> Number:
    off: Array = x.error
    return Number(x.value[..., keys], x.model, off[..., keys])


def attention(heads: Heads, model: Model, fmt: Format) -> Number:
    """Answers before their last rounding, [heads, queries, dimension]."""
    (powers, total, _), keys = softmax(heads, model), heads.k.shape[1]
    rescaling, added = _of_sums(keys, model)
    p = (powers / replace(total, log=total.log + rescaling)).shares(rescaling + added + model.division)
    found = dot(_stored(_part(p, slice(keys)), fmt), Number(heads.v, model))
    return replace(found, off=found.off + _lost(heads, model))


def sizes_of_values(heads: Heads) -> Array:
    """sum_j p_j |v_j|, [heads, queries, dimension]."""
    powers, total, _ = softmax(heads, EXACT)
    return (powers.value / total.value)[..., : heads.k.shape[1]] @ abs(heads.v)


def _lost(heads: Heads, model: Model) -> Array:
    """Largest part of an answer that flushed weights and products had, [heads, 1, dimension].

    Attention kernels flush below float32's least normal number, by their compilers' options. What float64 loses is
    beyond all formats.
    """
    least = 0.0 if model is IN_FLOAT64 else max(model.underflow, FLOAT32.least_normal)
    return least * heads.k.shape[1] * largest(abs(heads.v), 1, 0.0)


def logsumexp(heads: Heads, model: Model) -> Number:
    """The log-sum-exp of each query's scores before its last rounding, [heads, queries, 1]."""
    _, total, top = softmax(heads, model)
    return (top.rounded(SCALED) + total.logarithm()).rounded(1.0)


def beyond_values(heads: Heads, size: Array, model: Model, fmt: Format) -> Array:
    """Distance by which rounding may carry answers beyond the values, of at most a ``size``, that queries see; of its shape.

    The weights' own errors are the same in numerator and denominator, but for the rounding of a log-sum-exp that all
    weights are taken from.
    """
    xp, keys, top = module_of(size), heads.k.shape[1], subtracted(heads)
    stored = fmt.unit_roundoff if fmt.width == 16 else 0.0
    of_sums = (
        sum(_of_sums(keys, model)) + model.division + of_products(keys, model, BY_THE_WAY) + stored
    ) * SECOND_ORDER
    of_logarithm = 1.0 + np.log1p(keys) + abs(top) + xp.clip(heads.sink - top, 0.0, None)
    allowed = (of_sums + _OF_LOGARITHM * model.roundoff * of_logarithm) * size + _lost(heads, model)
    if fmt.width == 16:
        allowed = allowed + 0.5 * fmt.least_subnormal * (heads.visible * xp.ones_like(size[..., :1]) @ abs(heads.v))
    return allowed + half_ulp(size + allowed, fmt)


_OF_FLOAT64 = 2.0**-44
"""Largest error of the exact gradients themselves, relative to their terms: a few thousand float64 roundings."""


_FLUSHED = FLOAT32.least_normal
"""Least number that a backward keeps between its products."""


class OperandGradient(NamedTuple):
    """A gradient and the largest error of one, float64 of the operand's shape."""

    exact: Values
    allowed: Values


def gradients(heads: Heads, grad: Values, model: Model, fmt: Format, groups: int = 1) -> dict[str, OperandGradient]:
    """Returns the gradients of sum(grad * o) by q, k, v, a bias and sinks.

    ``grad`` is [heads, queries, dimension]. Each query sees a key. A head has the queries of ``groups`` query heads, of
    which each has a sink: their gradients are [query heads, 1, 1], the sums over all batches.
    """
    g, v = (Number(part, model) for part in (grad, heads.v))
    p, share = _weights(heads, model, fmt)
    of_keys, answers = dot(g, transposed(v)), attention(heads, model, fmt)
    rounded = replace(answers, off=answers.error + half_ulp(np.abs(answers.value) + answers.error, fmt))
    # A backward takes the mean from the rounded answer, or from weights and their gradients.
    mean, of_weights = summed(times(g, rounded)), summed(times(p, of_keys))
    mean = replace(mean, off=np.maximum(mean.error, of_weights.error))
    of_scores, of_sinks = times(p, of_keys - mean), times(share, -mean)
    return _by_operand(heads, of_scores, of_sinks, fmt, groups, {"v": (transposed(p), g)})


def gradients_of_logsumexp(
    heads: Heads, grad: Values, model: Model, fmt: Format, groups: int = 1
) -> dict[str, OperandGradient]:
    """Returns the gradients of sum(grad * log-sum-exp) by q, k, a bias and sinks; ``grad`` is [heads, queries, 1]."""
    p, share = _weights(heads, model, fmt, from_answer=True)
    g = Number(grad, model)
    return _by_operand(heads, times(p, g), times(share, g), fmt, groups, {})


def _weights(heads: Heads, model: Model, fmt: Format, *, from_answer: bool = False) -> tuple[Number, Number]:
    """Returns the weights of keys and of sinks as a backward has them, whose log-sum-exp may come ``from_answer``, rounded to the format."""
    powers, total, _ = softmax(heads, model)
    keys, log = heads.k.shape[1], logsumexp(heads, model)
    rounding = half_ulp(np.abs(log.value), fmt) if from_answer else 0.0
    # Weights come from the scores and a rounded log-sum-exp, or from the forward's sums, which err by less.
    weights = (powers / replace(total, log=log.error + _OF_FLOAT64 + rounding)).shares()
    p, share = (_stored(_part(weights, part), fmt, _FLUSHED) for part in (slice(keys), slice(keys, None)))
    # A sink far above all scores is the log-sum-exp itself, and its weight 1: no right one is more than 2.
    return p, replace(share, off=np.where(share.value == 1, np.minimum(share.error, 1.0), share.error))


def _by_operand(
    heads: Heads,
    of_scores: Number,
    of_sinks: Number,
    fmt: Format,
    groups: int,
    products: Mapping[str, tuple[Number, Number]],
) -> dict[str, OperandGradient]:
    """Returns gradients by the operands of scores, from that of each score and each sink, and those that are ``products``."""
    model, queries, keys = of_scores.model, heads.q.shape[1], heads.k.shape[1]
    of_scores = of_scores.rounded(BY_THE_WAY)
    of_bias = _stored(of_scores, fmt, _FLUSHED)
    if heads.softcap:
        tangent = scores(replace(heads, bias=None), model).rounded(0.0, 1 / heads.softcap)
        slope = Number(1 - tangent.value**2, model, (2 * np.abs(tangent.value) + tangent.error) * tangent.error)
        of_scores = times(of_scores, replace(slope, off=slope.error + SCALED * model.roundoff))
    of_scores = _stored(of_scores.rounded(0.0, heads.scale), fmt, _FLUSHED)

    def judged(x: Number) -> OperandGradient:
        allowed = x.error + _FLUSHED * max(queries, keys)
        no_nan("a gradient's bound", allowed)
        return OperandGradient(x.value, allowed + half_ulp(np.abs(x.value) + allowed, fmt))

    made = {"q": dot(of_scores, Number(heads.k, model))}
    for name, (left, right) in {"k": (transposed(of_scores), Number(heads.q, model)), **products}.items():
        made[name] = dot(left, right)
        if groups > 1 and fmt.width == 16:
            made[name] = _expanded(left.value, right.value, made[name], groups, fmt)
    if heads.bias is not None:
        made["bias"] = of_bias
    if np.isfinite(heads.sink):
        terms = _stored(of_sinks.rounded(BY_THE_WAY), fmt, _FLUSHED)
        batch, of_batch = split(len(heads.q))
        added = of_products(queries * len(heads.q), model) * (np.abs(terms.value) + terms.error)
        by_head = (terms.value, terms.error + added)
        exact, off = (part.reshape(batch, of_batch, groups, -1).sum(axis=(0, 3)).reshape(-1, 1, 1) for part in by_head)
        made["sinks"] = Number(exact, model, off)
    return {name: judged(each) for name, each in made.items()}


def _expanded(left: Values, right: Values, whole: Number, groups: int, fmt: Format) -> Number:
    """Gradients by keys that are repeated for each query head: each head's is rounded to 16 bits as their sum is."""
    by_query_head = (np.split(left, groups, axis=2), np.split(right, groups, axis=1))
    sizes = sum(np.abs(one @ other) for one, other in zip(*by_query_head, strict=True))
    more = groups * (fmt.unit_roundoff * (sizes + whole.error) + 0.5 * fmt.least_subnormal)
    return replace(whole, off=whole.error + more)
