"""Attention, sum_j p_j v_j with p the softmax of a query's scores, enclosed by Arb.

A score is scale * (q . k_j), or c tanh(scale * (q . k_j) / c) with a soft cap c, and a bias is added to either. Queries see some of
the keys; a sink adds e^sink to the denominator.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import flint
import numpy as np

from oracles._enclosure import halves
from oracles.arrays import Array
from oracles.formats import Values
from oracles.reference import Reference, stated

_VANISHED = 2.0**-860
"""More than the shares of all keys that underflow, times any value of float32."""
_PRECISION = 160


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


def attention_ball(heads: Heads) -> Reference:
    """Outputs enclosed by Arb, [heads * queries, dimension]."""
    with flint.ctx.workprec(_precision(heads)):
        balls = [ball for head in range(len(heads.q)) for query in _enclosed(heads, head) for ball in query]
        high, low, off = halves(balls, (-1, heads.v.shape[2]))
    return stated(high, off, low, _VANISHED)


def logsumexp_ball(heads: Heads, base: float = math.e) -> Reference:
    """Logarithms of each query's sum of exponentials enclosed by Arb, [heads * queries, 1]; 0 where nothing is seen."""
    with flint.ctx.workprec(_precision(heads)):
        sums = [(top, total) for head in range(len(heads.q)) for top, total, _ in _weighted(heads, head)]
        unit = flint.arb(base).log() if base != math.e else flint.arb(1)
        balls = [(top + total.log()) / unit if total > 0 else flint.arb(0) for top, total in sums]
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
