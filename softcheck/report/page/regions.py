"""Regions of the plane of columns and rows that words such as ``rows >= 8192 and columns > 256`` name, as polygons.

On logarithmic axes a limit of rows, of columns or of elements is a straight line, so each region is a convex polygon: the
rectangle of the axes, cut by one line after the other.
"""

import math
import re
from collections.abc import Iterator

Corner = tuple[float, float]
"""log2 of the columns and of the rows."""
_Limit = tuple[float, float, float]
"""a, b and c of a x + b y <= c."""

_MEASURES = {"columns": (1.0, 0.0), "rows": (0.0, 1.0), "elements": (1.0, 1.0)}
_COMPARED = re.compile(r"(columns|rows|elements) (<=|>=|<|>|=) ([0-9]{1,15})")
_BETWEEN = re.compile(r"(columns|rows|elements) from ([0-9]{1,15}) to ([0-9]{1,15})")


def region(words: str, low: Corner, high: Corner) -> list[Corner] | None:
    """The part of a rectangle that the words name, empty where it lies beside; None for words that name no such part.

    A limit is drawn half a size beyond the last size within it.
    """
    limits: list[_Limit] = []
    for part in words.split(" and "):
        found = list(_limits(part))
        if not found:
            return None
        limits += found
    corners = [low, (high[0], low[1]), high, (low[0], high[1])]
    for limit in limits:
        corners = _cut(corners, limit)
    return corners


def _limits(words: str) -> Iterator[_Limit]:
    if compared := _COMPARED.fullmatch(words):
        measure, sign, number = compared.groups()
        size = float(number)
        if sign in ("<=", "<", "="):
            yield _below(measure, size + (-0.5 if sign == "<" else 0.5))
        if sign in (">=", ">", "="):
            yield _above(measure, size + (0.5 if sign == ">" else -0.5))
    elif between := _BETWEEN.fullmatch(words):
        measure, first, last = between.groups()
        yield _above(measure, float(first) - 0.5)
        yield _below(measure, float(last) + 0.5)


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
