"""Enclosures of a row's exponentials and their sum, at python-flint's current working precision."""

from collections.abc import Iterable
from typing import Any

import flint
import numpy as np

from oracles._rows import Groups
from oracles.formats import Values

Ball = Any
"""flint.arb, which has no type information."""


def exponentials(groups: Groups) -> tuple[list[Ball], Ball]:
    """Balls for e^(x - max) of every group, ascending, and for their sum with multiplicities."""
    maximum = flint.arb(groups.maximum)
    terms = [(flint.arb(x) - maximum).exp() for x in groups.values.tolist()]
    denominator = flint.arb(0)
    if len(terms) == groups.counts.sum():
        for term in terms:
            denominator += term
    else:
        for term, count in zip(terms, groups.counts.tolist(), strict=True):
            denominator += term * count
    return terms, denominator


def halves(balls: Iterable[Ball], shape: tuple[int, ...]) -> tuple[Values, Values, Values]:
    """The middles of balls as two float64, and how far the balls reach from there, all of a shape."""
    parts = ((middle := float(ball.mid()), float((ball - middle).mid()), float(ball.rad())) for ball in balls)
    high, low, radius = np.array(list(parts)).reshape(-1, 3).T
    return high.reshape(shape), low.reshape(shape), (1.01 * radius + 2.0**-104 * np.abs(high)).reshape(shape)
