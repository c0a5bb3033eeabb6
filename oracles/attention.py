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
from oracles.reference import Reference, with_error

_UNIT = 2.0**-53
LARGEST = 700.0
"""Largest exponent whose exponential is finite in float64, and normal for its negative, rounded down."""
UNKNOWN = 100.0
"""Error of a logarithm from which a number is not known at all."""
_VANISHED = 2.0**-860
"""More than the shares of all keys that underflow, times any value of float32."""
_PRECISION = 160


class Weights(NamedTuple):
    """The softmax of scores in float64, and the largest error of each weight in the logarithm."""

    weights: Values
    """[heads, queries, keys]; 0 for keys that are not seen."""
    errors: Values
    distance: Values
    """What the scores are below ``shift``, [heads, queries, keys]; 0 for keys that are not seen."""
    sink: Values
    """The sink's share, [heads, queries, 1]; 0 without one."""
    total: Values
    """The sum of all exponentials of scores and sink less ``shift``, [heads, queries, 1]: at least 1, and 1 where there are none."""
    of_total: Values
    """The largest error of its logarithm."""


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

    @property
    def shift(self) -> Values:
        """The number that is taken from all exponents, [heads, queries, 1]: the largest score, or the sink where that is larger."""
        found: Values = np.maximum(self.top, self.sink)
        return found

    @cached_property
    def softmax(self) -> Weights:
        """Weights in float64. Products of two numbers of 24 bits are exact in it, sums of several are not.

        What is taken from all exponents is one number, whatever it is, and so has no error.
        """
        of_score = self.scale * (self.terms + (self.terms > 0)) * _UNIT * self.sizes
        if self.softcap or np.isfinite(self.sink) or self.bias is not None:
            distance = self.shift - self.scores
            added = 0.0 if self.bias is None else np.abs(self.bias)
            of_score = of_score + 8 * _UNIT * (np.abs(self.products) * self.scale + self.softcap + added)
        else:
            # The difference comes first, so that its product with the scale is all that large scores round.
            products = np.where(self.visible, self.products, -np.inf)
            first = products.max(axis=2, keepdims=True, initial=-np.inf)
            distance = (np.where(np.isfinite(first), first, 0.0) - products) * self.scale
        distance = np.where(self.visible, distance, 0.0)
        errors = np.where(self.visible, of_score + _UNIT * (3 * np.minimum(distance, LARGEST) + 2), 0.0)
        parts = np.where(self.visible, np.exp(-distance), 0.0)
        of_sink = np.exp(self.sink - self.shift)
        total = parts.sum(axis=2, keepdims=True) + of_sink
        total = np.where(total > 0, total, 1.0)
        weights, share = parts / total, of_sink / total
        below = np.where(of_sink > 0, self.shift - self.sink, 0.0)
        alone = Weights(weights, errors, distance, share, total, np.zeros_like(total))
        of_total = (
            self.growth(errors, _UNIT * (3 * np.minimum(below, LARGEST) + 2), alone) + (self.k.shape[1] + 8) * _UNIT
        )
        return alone._replace(errors=errors + of_total, of_total=of_total)

    def growth(self, log_errors: Values, of_sink: Values, softmax: Weights | None = None) -> Values:
        """The logarithm of sum_j p_j e^(E_j), [heads, queries, 1], with the sink's share: by how much the sum of all exponentials may grow.

        A sum shrinks by no more: the exponential is convex.
        """
        weights, _, distance, share, total, _ = self.softmax if softmax is None else softmax
        grown = (weights * np.expm1(np.minimum(log_errors, UNKNOWN))).sum(axis=2, keepdims=True)
        found: Values = np.log1p(grown + share * np.expm1(np.minimum(of_sink, UNKNOWN)))
        far = _lost(weights, log_errors, distance).any(axis=2)
        if far.any():
            exponents = np.where(self.visible, log_errors - distance, -np.inf)[far]
            sink = (of_sink + self.sink - self.shift)[far][:, 0]
            larger = np.logaddexp(np.logaddexp.reduce(exponents, axis=1), sink) - np.log(total[far][:, 0])
            found[far] = np.maximum(found[far], larger[:, None])
        return found

    @cached_property
    def sizes_of_values(self) -> Values:
        """sum_j p_j |v_j|, [heads, queries, dimension]."""
        found: Values = self.softmax.weights @ np.abs(self.v)
        return found

    def grown(self, log_errors: Values) -> Values:
        """The changes p (e^E - 1) that errors of their logarithms make in the weights at most, [heads, queries, keys]; 0 where unseen.

        Where E says nothing of p, or float64 does not hold e^-d, it is p and what p may become: e^(E - d), and at most 1.
        """
        weights, distance = self.softmax.weights, self.softmax.distance
        found: Values = weights * np.expm1(np.minimum(log_errors, UNKNOWN))
        lost = _lost(weights, log_errors, distance)
        if lost.any():
            found[lost] = weights[lost] + np.exp(np.minimum((log_errors - distance)[lost], 0.0))
        return found

    def weighted(self, log_errors: Values) -> Values:
        """The errors that these changes make in sum_j p_j v_j, [heads, queries, dimension]."""
        found: Values = self.grown(log_errors) @ np.abs(self.v)
        return found


def _lost(weights: Values, log_errors: Values, distance: Values) -> NDArray[np.bool_]:
    """Weights of which float64 or their own errors say nothing."""
    return np.asarray(((weights > 0) & (log_errors > UNKNOWN)) | (distance > LARGEST))


def attention(heads: Heads) -> Reference:
    """Outputs in float64, [heads * queries, dimension], with a bound on their own error; 0 where a query sees nothing."""
    weights = heads.softmax.weights
    high = weights @ heads.v
    off = heads.weighted(heads.softmax.errors) + (heads.k.shape[1] + 4) * _UNIT * heads.sizes_of_values
    return _reference(high, np.zeros_like(high), off)


def attention_ball(heads: Heads) -> Reference:
    """Outputs enclosed by Arb, of the same shape as ``attention``'s."""
    count, queries, _ = heads.q.shape
    high, low, off = np.zeros((3, count, queries, heads.v.shape[2]))
    with flint.ctx.workprec(_precision(heads)):
        for head in range(count):
            for query, balls in enumerate(_enclosed(heads, head)):
                for column, ball in enumerate(balls):
                    high[head, query, column] = middle = float(ball.mid())
                    low[head, query, column] = float((ball - middle).mid())
                    off[head, query, column] = 1.01 * float(ball.rad()) + 2.0**-104 * abs(middle)
    return _reference(high, low, off)


def logsumexp(heads: Heads) -> Reference:
    """Logarithms of each query's sum of exponentials in float64, [heads * queries, 1], in base e; 0 where nothing is seen."""
    logarithm = np.log(heads.softmax.total)
    # Where exponents are differences of products, what is taken from them is the product, of which the largest score is rounded.
    off = heads.softmax.of_total + 8 * _UNIT * (np.abs(heads.shift) + np.abs(logarithm) + 1)
    return _reference(heads.shift + logarithm, np.zeros_like(off), off)


def logsumexp_ball(heads: Heads) -> Reference:
    """The same logarithms enclosed by Arb."""
    high, low, off = np.zeros((3, *heads.q.shape[:2], 1))
    with flint.ctx.workprec(_precision(heads)):
        for head in range(len(heads.q)):
            for query, (top, total) in enumerate(_sums(heads, head)):
                ball = top + total.log() if total > 0 else flint.arb(0)
                high[head, query, 0] = middle = float(ball.mid())
                low[head, query, 0] = float((ball - middle).mid())
                off[head, query, 0] = 1.01 * float(ball.rad()) + 2.0**-104 * abs(middle)
    return _reference(high, low, off)


def _precision(heads: Heads) -> int:
    """Bits that leave 160 behind the point of the largest score or sink."""
    sink = abs(heads.sink) if np.isfinite(heads.sink) else 0.0
    return _PRECISION + int(np.log2(max(1.0, sink, float((heads.sizes * heads.scale).max(initial=0.0)))))


def _sums(heads: Heads, head: int) -> list[tuple[flint.arb, flint.arb]]:
    """A number next to each query's largest exponent, and the sum of exponentials less that number."""
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
    """Of each query a number next to its largest exponent, a score or the sink, the sum of exponentials less that number, and these exponentials."""
    products = (_matrix(heads.q[head]) * _matrix(heads.k[head]).transpose()).table()
    scale, cap = flint.arb(heads.scale), flint.arb(heads.softcap)
    for query, row in enumerate(products):
        seen = np.flatnonzero(heads.visible[head, query])
        scores = [row[j] * scale for j in seen]
        if heads.softcap:
            scores = [cap * (score / cap).tanh() for score in scores]
        if heads.bias is not None:
            scores = [score + float(heads.bias[head, query, j]) for j, score in zip(seen, scores, strict=True)]
        largest = max((float(score.mid()) for score in scores), default=-np.inf)
        top = flint.arb(max(largest, heads.sink) if seen.size or np.isfinite(heads.sink) else 0.0)
        parts = [flint.arb(0)] * len(row)
        for j, score in zip(seen, scores, strict=True):
            parts[j] = (score - top).exp()
        sink = (flint.arb(heads.sink) - top).exp() if np.isfinite(heads.sink) else flint.arb(0)
        yield top, sum(parts, sink), parts


def _matrix(values: Values) -> flint.arb_mat:
    return flint.arb_mat(values.shape[0], values.shape[1], values.ravel().tolist())


def _reference(high: Values, low: Values, off: Values) -> Reference:
    """The answer as a reference."""
    shape = (-1, high.shape[2])
    high, low, relative = (part.reshape(shape) for part in with_error(high, low, off))
    return Reference(high, low, np.zeros(high.shape, dtype=np.int64), relative, _VANISHED)
