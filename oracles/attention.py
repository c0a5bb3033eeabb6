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

from oracles._enclosure import halves
from oracles.arrays import Array, largest, module_of
from oracles.formats import Values
from oracles.reference import Reference, stated

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

    weights: Array
    """[heads, queries, keys]; 0 for keys that are not seen."""
    errors: Array
    distance: Array
    """What the scores are below ``shift``, [heads, queries, keys]; 0 for keys that are not seen."""
    sink: Array
    """The sink's share, [heads, queries, 1]; 0 without one."""
    total: Array
    """The sum of all exponentials of scores and sink less ``shift``, [heads, queries, 1]: at least 1, and 1 where there are none."""
    of_total: Array
    """The largest error of its logarithm."""


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of attention, arrays or tensors of float64: numbers of at most 24 significant bits, finite where they are seen."""

    q: Array
    """[heads, queries, dimension]."""
    k: Array
    """[heads, keys, dimension]."""
    v: Array
    """[heads, keys, value dimension]."""
    visible: Array
    """[heads, queries, keys], True where a query sees a key."""
    scale: float
    softcap: float = 0.0
    """0 without a soft cap."""
    sink: float = -np.inf
    """Logit that has a share of the softmax and no value; -inf without a sink."""
    bias: Array | None = None
    """[heads, queries, keys]: finite numbers added to the scores; None without a bias."""

    @cached_property
    def products(self) -> Array:
        """Q . k of each query and key, [heads, queries, keys]."""
        return self.q @ self.k.swapaxes(1, 2)

    @cached_property
    def sizes(self) -> Array:
        """|q| . |k|, [heads, queries, keys]."""
        return abs(self.q) @ abs(self.k).swapaxes(1, 2)

    @cached_property
    def terms(self) -> Array:
        """Products of a query's that are not 0, less the first: the additions that round; [heads, queries, 1]."""
        xp = module_of(self.q)
        return xp.clip(abs(xp.sign(self.q)).sum(axis=2, keepdims=True) - 1.0, 0.0, None)

    @cached_property
    def scores(self) -> Array:
        """The scores, -inf where a key is not seen, [heads, queries, keys]."""
        xp, found = module_of(self.q), self.products * self.scale
        if self.softcap:
            found = self.softcap * xp.tanh(found / self.softcap)
        if self.bias is not None:
            found = found + self.bias
        return xp.where(self.visible, found, -np.inf)

    @cached_property
    def top(self) -> Array:
        """The largest score of each query, [heads, queries, 1]; where a query sees nothing the sink, or 0 without one."""
        found, xp = largest(self.scores, 2), module_of(self.q)
        return xp.where(xp.isfinite(found), found, self.sink if np.isfinite(self.sink) else 0.0)

    @property
    def shift(self) -> Array:
        """The number that is taken from all exponents, [heads, queries, 1]: the largest score, or the sink where that is larger."""
        return module_of(self.q).clip(self.top, self.sink, None)

    @cached_property
    def softmax(self) -> Weights:
        """Weights in float64. Products of two numbers of 24 bits are exact in it, sums of several are not.

        What is taken from all exponents is one number, whatever it is, and so has no error.
        """
        xp = module_of(self.q)
        of_score = self.scale * (self.terms + (self.terms > 0)) * _UNIT * self.sizes
        if self.softcap or np.isfinite(self.sink) or self.bias is not None:
            distance = self.shift - self.scores
            added = 0.0 if self.bias is None else abs(self.bias)
            of_score = of_score + 8 * _UNIT * (abs(self.products) * self.scale + self.softcap + added)
        else:
            # The difference comes first, so that its product with the scale is all that large scores round.
            products = xp.where(self.visible, self.products, -np.inf)
            first = largest(products, 2)
            distance = (xp.where(xp.isfinite(first), first, 0.0) - products) * self.scale
        distance = xp.where(self.visible, distance, 0.0)
        errors = xp.where(self.visible, of_score + _UNIT * (3 * xp.clip(distance, None, LARGEST) + 2), 0.0)
        parts = xp.where(self.visible, xp.exp(-distance), 0.0)
        of_sink = xp.exp(self.sink - self.shift)
        total = parts.sum(axis=2, keepdims=True) + of_sink
        total = xp.where(total > 0, total, 1.0)
        weights, share = parts / total, of_sink / total
        below = xp.where(of_sink > 0, self.shift - self.sink, 0.0)
        alone = Weights(weights, errors, distance, share, total, xp.zeros_like(total))
        of_below = _UNIT * (3 * xp.clip(below, None, LARGEST) + 2)
        of_total = self.growth(errors, of_below, alone) + (self.k.shape[1] + 8) * _UNIT
        return alone._replace(errors=errors + of_total, of_total=of_total)

    def growth(self, log_errors: Array, of_sink: Array, softmax: Weights | None = None) -> Array:
        """The logarithm of sum_j p_j e^(E_j), [heads, queries, 1], with the sink's share: by how much the sum of all exponentials may grow.

        A sum shrinks by no more: the exponential is convex.
        """
        xp = module_of(self.q)
        weights, _, distance, share, total, _ = self.softmax if softmax is None else softmax
        grown = (weights * xp.expm1(xp.clip(log_errors, None, UNKNOWN))).sum(axis=2, keepdims=True)
        found = xp.log1p(grown + share * xp.expm1(xp.clip(of_sink, None, UNKNOWN)))
        far = _lost(weights, log_errors, distance).any(axis=2)
        if far.any():
            exponents = xp.where(self.visible, log_errors - distance, -np.inf)[far]
            sink = (of_sink + self.sink - self.shift)[far][:, 0]
            of_keys = np.logaddexp.reduce(exponents, axis=1) if xp is np else exponents.logsumexp(1)
            larger = xp.logaddexp(of_keys, sink) - xp.log(total[far][:, 0])
            found[far] = xp.maximum(found[far], larger[:, None])
        return found

    @cached_property
    def sizes_of_values(self) -> Array:
        """sum_j p_j |v_j|, [heads, queries, dimension]."""
        return self.softmax.weights @ abs(self.v)

    def grown(self, log_errors: Array) -> Array:
        """The changes p (e^E - 1) that errors of their logarithms make in the weights at most, [heads, queries, keys]; 0 where unseen.

        Where E says nothing of p, or float64 does not hold e^-d, it is p and what p may become: e^(E - d), and at most 1.
        """
        xp, weights, distance = module_of(self.q), self.softmax.weights, self.softmax.distance
        found = weights * xp.expm1(xp.clip(log_errors, None, UNKNOWN))
        lost = _lost(weights, log_errors, distance)
        if lost.any():
            found[lost] = weights[lost] + xp.exp(xp.clip((log_errors - distance)[lost], None, 0.0))
        return found

    def weighted(self, log_errors: Array) -> Array:
        """The errors that these changes make in sum_j p_j v_j, [heads, queries, dimension]."""
        return self.grown(log_errors) @ abs(self.v)


def _lost(weights: Array, log_errors: Array, distance: Array) -> Array:
    """Weights of which float64 or their own errors say nothing."""
    return ((weights > 0) & (log_errors > UNKNOWN)) | (distance > LARGEST)


def outputs(heads: Heads) -> tuple[Array, Array]:
    """Outputs in float64, [heads, queries, dimension], and the largest error of each; 0 where a query sees nothing."""
    off = heads.weighted(heads.softmax.errors) + (heads.k.shape[1] + 4) * _UNIT * heads.sizes_of_values
    return heads.softmax.weights @ heads.v, off


def attention(heads: Heads) -> Reference:
    """The same outputs of arrays, [heads * queries, dimension]."""
    high, off = (part.reshape(-1, heads.v.shape[2]) for part in outputs(heads))
    return stated(high, off, absolute=_VANISHED)


def attention_ball(heads: Heads) -> Reference:
    """Outputs enclosed by Arb, [heads * queries, dimension]."""
    with flint.ctx.workprec(_precision(heads)):
        balls = [ball for head in range(len(heads.q)) for query in _enclosed(heads, head) for ball in query]
        high, low, off = halves(balls, (-1, heads.v.shape[2]))
    return stated(high, off, low, _VANISHED)


def logarithms(heads: Heads) -> tuple[Array, Array]:
    """Logarithms of each query's sum of exponentials in float64, [heads, queries, 1], in base e, and their errors; 0 where nothing is seen."""
    logarithm = module_of(heads.q).log(heads.softmax.total)
    # Where exponents are differences of products, what is taken from them is the product, of which the largest score is rounded.
    off = heads.softmax.of_total + 8 * _UNIT * (abs(heads.shift) + abs(logarithm) + 1)
    return heads.shift + logarithm, off


def logsumexp(heads: Heads) -> Reference:
    """The same logarithms of arrays, [heads * queries, 1]."""
    high, off = (part.reshape(-1, 1) for part in logarithms(heads))
    return stated(high, off, absolute=_VANISHED)


def logsumexp_ball(heads: Heads) -> Reference:
    """The same logarithms enclosed by Arb, [heads * queries, 1]."""
    with flint.ctx.workprec(_precision(heads)):
        sums = [(top, total) for head in range(len(heads.q)) for top, total, _ in _weighted(heads, head)]
        balls = [top + total.log() if total > 0 else flint.arb(0) for top, total in sums]
        high, low, off = halves(balls, (-1, 1))
    return stated(high, off, low, _VANISHED)


def _precision(heads: Heads) -> int:
    """Bits that leave 160 behind the point of the largest score or sink."""
    sink = abs(heads.sink) if np.isfinite(heads.sink) else 0.0
    return _PRECISION + int(np.log2(max(1.0, sink, float((heads.sizes * heads.scale).max(initial=0.0)))))


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
        highest = max((float(score.mid()) for score in scores), default=-np.inf)
        top = flint.arb(max(highest, heads.sink) if seen.size or np.isfinite(heads.sink) else 0.0)
        parts = [flint.arb(0)] * len(row)
        for j, score in zip(seen, scores, strict=True):
            parts[j] = (score - top).exp()
        sink = (flint.arb(heads.sink) - top).exp() if np.isfinite(heads.sink) else flint.arb(0)
        yield top, sum(parts, sink), parts


def _matrix(values: Values) -> flint.arb_mat:
    return flint.arb_mat(values.shape[0], values.shape[1], values.ravel().tolist())
