"""Attention, sum_j p_j v_j with p the softmax of a query's scores: float64 with its own error, and Arb with an enclosure.

A score is scale * (q . k_j), or c tanh(scale * (q . k_j) / c) with a soft cap c, and a bias is added to either. Queries see some of
the keys; a sink adds e^sink to the denominator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import flint
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from oracles.reference import Reference

_UNIT = 2.0**-53
_LARGEST = 700.0
"""Largest exponent whose exponential is finite in float64, rounded down."""
_VANISHED = 2.0**-990
"""More than the share of all keys that are farther than 700 below the maximum, times any value."""
_PRECISION = 160


class Weights(NamedTuple):
    """The softmax of scores in float64, and the largest error of each weight in the logarithm."""

    weights: Values
    """[heads, queries, keys]; 0 for keys that are not seen."""
    errors: Values


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of attention, float64: numbers of at most 24 significant bits, finite where they are seen."""

    q: Values
    """[heads, queries, dimension]."""
    k: Values
    """[heads, keys, dimension]."""
    v: Values
    """[heads, keys, value dimension]."""
    visible: NDArray[np.bool_]
    """[heads, queries, keys], True where a query sees a key."""
    scale: float
    softcap: float = 0.0
    """0 without a soft cap."""
    sink: float = -np.inf
    """Logit that has a share of the softmax and no value; -inf without a sink."""
    bias: Values | None = None
    """[heads, queries, keys]: finite numbers added to the scores; None without a bias."""

    @cached_property
    def products(self) -> Values:
        """Q . k of each query and key, [heads, queries, keys]."""
        found: Values = self.q @ self.k.transpose(0, 2, 1)
        return found

    @cached_property
    def sizes(self) -> Values:
        """|q| . |k|, [heads, queries, keys]."""
        found: Values = np.abs(self.q) @ np.abs(self.k).transpose(0, 2, 1)
        return found

    @cached_property
    def terms(self) -> Values:
        """Products of a query's that are not 0, less the first: the additions that round; [heads, queries, 1]."""
        found: Values = np.maximum(np.count_nonzero(self.q, axis=2, keepdims=True) - 1.0, 0.0)
        return found

    @cached_property
    def scores(self) -> Values:
        """The scores, -inf where a key is not seen, [heads, queries, keys]."""
        found = self.products * self.scale
        if self.softcap:
            found = self.softcap * np.tanh(found / self.softcap)
        if self.bias is not None:
            found = found + self.bias
        return np.where(self.visible, found, -np.inf)

    @cached_property
    def top(self) -> Values:
        """The largest score of each query, [heads, queries, 1]; where a query sees nothing the sink, or 0 without one."""
        found = self.scores.max(axis=2, keepdims=True, initial=-np.inf)
        return np.where(np.isfinite(found), found, self.sink if np.isfinite(self.sink) else 0.0)

    @cached_property
    def softmax(self) -> Weights:
        """Weights in float64. Products of two numbers of 24 bits are exact in it, sums of several are not."""
        of_product = self.scale * (self.terms + (self.terms > 0)) * _UNIT * self.sizes
        at_top = np.where(self.visible, of_product, 0.0).max(axis=2, keepdims=True, initial=0.0)
        if self.softcap or np.isfinite(self.sink) or self.bias is not None:
            distance = self.top - self.scores
            added = 0.0 if self.bias is None else np.abs(self.bias).max(axis=2, keepdims=True, initial=0.0)
            rounding = 8 * _UNIT * (np.abs(self.products) * self.scale + np.abs(self.top) + self.softcap + added)
        else:
            # The difference comes first, so that its product with the scale is all that large scores round.
            products = np.where(self.visible, self.products, -np.inf)
            first = products.max(axis=2, keepdims=True, initial=-np.inf)
            distance = (np.where(np.isfinite(first), first, 0.0) - products) * self.scale
            rounding = np.zeros((1, 1, 1))
        far = np.where(self.visible, np.minimum(distance, _LARGEST), 0.0)
        errors = of_product + at_top + rounding + _UNIT * (3 * far + 2)
        parts = np.where(self.visible & (distance <= _LARGEST), np.exp(-far), 0.0)
        total = parts.sum(axis=2, keepdims=True) + np.exp(np.minimum(self.sink - self.top, _LARGEST))
        weights = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
        grown = (weights * np.expm1(np.minimum(errors, _LARGEST))).sum(axis=2, keepdims=True)
        if np.isfinite(self.sink):
            of_sink = at_top + 8 * _UNIT * (np.abs(self.top) + abs(self.sink) + 1)
            grown = grown + np.expm1(np.minimum(of_sink, _LARGEST))
        grown = np.log1p(grown)
        return Weights(weights, errors + grown + (self.k.shape[1] + 8) * _UNIT)

    @cached_property
    def sizes_of_values(self) -> Values:
        """sum_j p_j |v_j|, [heads, queries, dimension]."""
        found: Values = self.softmax.weights @ np.abs(self.v)
        return found

    def weighted(self, log_errors: Values) -> Values:
        """sum_j p_j (e^E_j - 1) |v_j|: the error that errors E_j of the weights' logarithms make, [heads, queries, dimension]."""
        found: Values = (self.softmax.weights * np.expm1(np.minimum(log_errors, _LARGEST))) @ np.abs(self.v)
        return found


def attention(heads: Heads) -> Reference:
    """Outputs in float64, [heads * queries, dimension], with a bound on their own error; 0 where a query sees nothing."""
    weights, errors = heads.softmax
    high = weights @ heads.v
    off = heads.weighted(errors) + (heads.k.shape[1] + 4) * _UNIT * heads.sizes_of_values
    return _reference(high, np.zeros_like(high), off)


def attention_ball(heads: Heads) -> Reference:
    """Outputs enclosed by Arb, of the same shape as ``attention``'s."""
    count, queries, _ = heads.q.shape
    high, low, off = np.zeros((3, count, queries, heads.v.shape[2]))
    size = max(1.0, float((heads.sizes * heads.scale).max(initial=0.0)))
    with flint.ctx.workprec(_PRECISION + int(np.log2(size))):
        for head in range(count):
            for query, balls in enumerate(_enclosed(heads, head)):
                for column, ball in enumerate(balls):
                    high[head, query, column] = middle = float(ball.mid())
                    low[head, query, column] = float((ball - middle).mid())
                    off[head, query, column] = 1.01 * float(ball.rad()) + 2.0**-104 * abs(middle)
    return _reference(high, low, off)


def logsumexp(heads: Heads) -> Reference:
    """Logarithms of each query's sum of exponentials in float64, [heads * queries, 1], in base e; 0 where nothing is seen."""
    weights, errors = heads.softmax
    distance = np.where(heads.visible, heads.top - heads.scores, np.inf)
    total = np.exp(-distance).sum(axis=2, keepdims=True) + np.exp(np.minimum(heads.sink - heads.top, _LARGEST))
    logarithm = np.where(total > 0, np.log(np.where(total > 0, total, 1.0)), 0.0)
    grown = np.log1p((weights * np.expm1(np.minimum(errors, _LARGEST))).sum(axis=2, keepdims=True))
    least = np.where(heads.visible, errors, np.inf).min(axis=2, keepdims=True, initial=_LARGEST)
    least = np.where(heads.visible.any(axis=2, keepdims=True), least, 0.0)
    off = grown + least + 8 * _UNIT * (np.abs(heads.top) + np.abs(logarithm) + 1)
    return _reference(heads.top + logarithm, np.zeros_like(off), off)


def logsumexp_ball(heads: Heads) -> Reference:
    """The same logarithms enclosed by Arb."""
    high, low, off = np.zeros((3, *heads.q.shape[:2], 1))
    size = max(1.0, float((heads.sizes * heads.scale).max(initial=0.0)))
    with flint.ctx.workprec(_PRECISION + int(np.log2(size))):
        for head in range(len(heads.q)):
            for query, (top, total) in enumerate(_sums(heads, head)):
                ball = top + total.log() if total > 0 else flint.arb(0)
                high[head, query, 0] = middle = float(ball.mid())
                low[head, query, 0] = float((ball - middle).mid())
                off[head, query, 0] = 1.01 * float(ball.rad()) + 2.0**-104 * abs(middle)
    return _reference(high, low, off)


def _sums(heads: Heads, head: int) -> list[tuple[flint.arb, flint.arb]]:
    """A number next to each query's largest score, and the sum of exponentials less that number."""
    return [(top, total) for top, total, _ in _weighted(heads, head)]


def _enclosed(heads: Heads, head: int) -> list[list[flint.arb]]:
    values = _matrix(heads.v[head])
    return [
        [one / total for one in (flint.arb_mat([parts]) * values).entries()]
        if total > 0
        else [flint.arb(0)] * values.ncols()
        for _, total, parts in _weighted(heads, head)
    ]


def _weighted(heads: Heads, head: int) -> Iterator[tuple[flint.arb, flint.arb, list[flint.arb]]]:
    """Of each query a number next to its largest score, the sum of exponentials less that number, and these exponentials."""
    products = (_matrix(heads.q[head]) * _matrix(heads.k[head]).transpose()).table()
    scale, cap = flint.arb(heads.scale), flint.arb(heads.softcap)
    for query, row in enumerate(products):
        seen = np.flatnonzero(heads.visible[head, query])
        scores = [row[j] * scale for j in seen]
        if heads.softcap:
            scores = [cap * (score / cap).tanh() for score in scores]
        if heads.bias is not None:
            scores = [score + float(heads.bias[head, query, j]) for j, score in zip(seen, scores, strict=True)]
        top = flint.arb(max((float(score.mid()) for score in scores), default=0.0))
        parts = [flint.arb(0)] * len(row)
        for j, score in zip(seen, scores, strict=True):
            parts[j] = (score - top).exp()
        sink = (flint.arb(heads.sink) - top).exp() if np.isfinite(heads.sink) else flint.arb(0)
        yield top, sum(parts, sink), parts


def _matrix(values: Values) -> flint.arb_mat:
    return flint.arb_mat(values.shape[0], values.shape[1], values.ravel().tolist())


def _reference(high: Values, low: Values, off: Values) -> Reference:
    """The answer as a reference. One that may be 0 is given by the size of its error, which then is relative to that."""
    unsure = np.abs(high) < off
    high, low = np.where(unsure, off, high), np.where(unsure, 0.0, low)
    relative = np.divide(off, np.abs(high), out=np.zeros_like(high), where=high != 0)
    relative[unsure] = 2.0
    shape = (-1, high.shape[2])
    exponent = np.zeros(high.shape, dtype=np.int64).reshape(shape)
    return Reference(high.reshape(shape), low.reshape(shape), exponent, relative.reshape(shape), _VANISHED)
