"""Regions of the plane of columns and rows that predicates such as ``rows >= 8192 and columns > 256`` hold in, as polygons.

On logarithmic axes a limit of rows, of columns or of elements is a straight line, so each region is a convex polygon: the
rectangle of the axes, cut by one line after the other.
"""

import math
from collections.abc import Iterator

from softcheck.facts import Sizes, Where

Corner = tuple[float, float]
"""log2 of the columns and of the rows."""
_Limit = tuple[float, float, float]
"""a, b and c of a x + b y <= c."""

_MEASURES = {"columns": (1.0, 0.0), "rows": (0.0, 1.0), "elements": (1.0, 1.0)}


def region(where: Where, low: Corner, high: Corner) -> list[Corner] | None:
    """The part of a rectangle in which a predicate holds, empty where it lies beside; None for one that holds in no such part.

    A limit is drawn half a size beyond the last size within it.
    """
    if len(where.any_of) != 1 or not where.any_of[0] or where.negated or where.partly:
        return None
    limits: list[_Limit] = []
    for part in where.any_of[0]:
        if not part.is_interval and not (part.is_listed and len(part.ranges) == 1):
            return None
        limits += _limits(part)
    corners = [low, (high[0], low[1]), high, (low[0], high[1])]
    for limit in limits:
        corners = _cut(corners, limit)
    return corners


def _limits(part: Sizes) -> Iterator[_Limit]:
    low, high = part.ranges[0] if part.ranges else (part.least, part.most)
    if low is not None:
        yield _above(part.of, low - 0.5)
    if high is not None:
        yield _below(part.of, high + 0.5)


def _below(measure: str, size: float) -> _Limit:
    return (*_MEASURES[measure], math.log2(max(size, 0.5)))


def _above(measure: str, size: float) -> _Limit:
    a, b, c = _below(measure, size)
    return -a, -b, -c


def _cut(corners: list[Corner], limit: _Limit) -> list[Corner]:
    """The part of a convex polygon on one side of a line, corner by corner (Sutherland and Hodgman, 1974)."""
    a, b, c = limit
    beyond = [a * x + b * y - c for x, y in corners]
    kept = []
    for i, (x, y) in enumerate(corners):
        (u, v), here, before = corners[i - 1], beyond[i], beyond[i - 1]
        if (here <= 0) != (before <= 0):
            share = before / (before - here)
            kept.append((u + share * (x - u), v + share * (y - v)))
        if here <= 0:
            kept.append((x, y))
    return kept
