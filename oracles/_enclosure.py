"""Enclosures of a row's exponentials and their sum, at python-flint's current working precision."""

from typing import Any

import flint

from oracles._rows import Groups

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
