"""Charts as SVG without a library: axes with ticks as people write them, marks, rules and labels beside what they name.

Colours are classes that ``page.css`` defines for both schemes: ``series-1`` and ``series-2`` for lines and dots, ``pass``,
``known``, ``fail``, ``unsupported`` and ``error`` for verdicts, ``muted`` for what stands behind.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from markupsafe import Markup, escape

Point = tuple[float, float]
Mark = Literal["circle", "ring", "cross"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 30.0, 46.0
"""Margins in pixels, with room for the ticks' labels and the axes' titles."""

_LETTER = 7.2
"""Width of a letter of a label in pixels, at the 12 pixels of ``page.css``, rather too wide than too narrow."""
_LINE = 14.0


_MOST_TICKS = 8
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from ``low`` to ``high``; ``base`` is 0 for a linear one, 2 or 10 for a logarithmic one."""

    title: str
    low: float
    high: float
    base: Literal[0, 2, 10] = 0
    named: Mapping[float, str] | None = None
    """Ticks by their figures in place of those that the axis chooses, as for names."""

    def share(self, value: float) -> float:
        """The place of a figure as a share of the axis's length; 0 or 1 for one beyond its ends."""
        low, high, at = self.low, self.high, value
        if self.base:
            low, high, at = math.log(low), math.log(high), math.log(max(value, low))
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        """Figures and their texts, at most about eight."""
        if self.named is not None:
            return list(self.named.items())
        if not self.base:
            step = _round_step((self.high - self.low) / _MOST_TICKS)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [(k * step, number(k * step)) for k in range(first, last + 1)]
        if self.base == 10 and self.high < 100 * self.low * (1 - 1e-9):
            return [(value, number(value)) for value in _ones_twos_fives(self.low, self.high)]
        first = math.ceil(math.log(self.low, self.base) - 1e-9)
        last = math.floor(math.log(self.high, self.base) + 1e-9)
        every = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
        powers = [k for k in range(first, last + 1) if k % every == 0]
        return [(float(self.base) ** k, power(self.base, k)) for k in powers]


def linear(title: str, values: Iterable[float]) -> Axis:
    """A linear axis that holds all values, 0 among them, with a little room above."""
    found = [v for v in values if math.isfinite(v)] or [1.0]
    low, high = min(0.0, *found), max(found)
    return Axis(title, low, high + 0.05 * (high - low or abs(high) or 1.0))


def logarithmic(title: str, values: Iterable[float], base: Literal[2, 10] = 10) -> Axis:
    """A logarithmic axis that holds all positive values, between powers of its base, or 2 or 5 times a power of ten."""
    found = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    if base == 10 and max(found) < 20 * min(found):
        around = _ones_twos_fives(min(found) / 10, max(found) * 10)
        below, above = max(v for v in around if v <= 0.9 * min(found)), min(v for v in around if v > max(found))
        return Axis(title, below, above, base)
    low = math.floor(math.log(min(found), base) + 1e-9)
    high = max(math.ceil(math.log(max(found), base) - 1e-9), low + 1)
    return Axis(title, float(base) ** low, float(base) ** high, base)


def number(value: float) -> str:
    """A figure on an axis: ``0.05``, ``4096``, ``65,536``."""
    rounded = float(f"{value:.6g}")
    if rounded == int(rounded):
        return f"{int(rounded):,}" if abs(rounded) >= 10_000 else str(int(rounded))
    return f"{rounded:g}"


def power(base: int, exponent: int) -> str:
    """A power on an axis: ``0.01``, ``1``, ``4096``; as ``10⁶`` or ``2¹⁷`` where the digits would be many."""
    value = float(base) ** exponent
    if (base == 10 and -3 <= exponent <= 4) or (base == 2 and -2 <= exponent <= 12):
        return number(value)
    return f"{base}{str(exponent).translate(_SUPERSCRIPTS)}"


def _ones_twos_fives(low: float, high: float) -> list[float]:
    """All 1, 2 and 5 times powers of ten from ``low`` to ``high``."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
    return [step for step in steps if low * (1 - 1e-9) <= step <= high * (1 + 1e-9)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is no smaller."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= least * (1 - 1e-9))


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element with its children, all escaped that is no Markup yet.

    An underscore in an attribute's name stands for a hyphen, one at its end for nothing: ``class_``, ``stroke_width``.
    Numbers are written to a tenth of a pixel; an attribute that is None is left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup().join(children)
    return Markup(f"<{name}{given}>{inside}</{name}>") if children else Markup(f"<{name}{given}/>")  # noqa: S704 - escaped


class Chart:
    """A chart with two axes. Marks are given in the axes' figures and drawn in the order of the calls.

    ``width``, ``height`` and ``left``, the margin for the labels of the vertical axis, are in pixels.
    """

    def __init__(self, x: Axis, y: Axis, *, width: float = 640, height: float = 340, left: float = _LEFT) -> None:
        self._x, self._y, self._left = x, y, left
        self.width, self.height = width, height
        self._marks: list[Markup] = []

    def place(self, x: float, y: float) -> Point:
        """The pixels of a point; a point beyond the axes is put on their ends."""
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        return self._left + self._x.share(x) * (right - self._left), bottom - self._y.share(y) * (bottom - _TOP)

    def line(self, points: Iterable[Point], cls: str, *, step: bool = False) -> None:
        """A line through points, or with ``step`` one that keeps each height up to the next point."""
        placed = [self.place(*point) for point in points]
        if step:
            placed = [p for a, b in pairwise(placed) for p in (a, (b[0], a[1]))] + placed[-1:]
        path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        self._marks.append(tag("path", class_=f"line {cls}", d=path))

    def dot(self, x: float, y: float, cls: str, *, mark: Mark = "circle", title: str = "") -> None:
        """A point as a disc, a ring or a cross; ``title`` shows where the pointer rests on it."""
        at, down = self.place(x, y)
        said = [tag("title", title)] if title else []
        if mark == "cross":
            path = f"M{at - 4:.1f},{down - 4:.1f}l8,8m0,-8l-8,8"
            self._marks.append(tag("path", *said, class_=f"cross {cls}", d=path))
        else:
            self._marks.append(tag("circle", *said, class_=f"{mark} {cls}", cx=at, cy=down, r=4.5))

    def span(self, start: Point, end: Point, cls: str) -> None:
        """A straight line between two points, as for an interval."""
        (x1, y1), (x2, y2) = self.place(*start), self.place(*end)
        self._marks.append(tag("line", class_=f"span {cls}", x1=x1, y1=y1, x2=x2, y2=y2))

    def box(self, corner: Point, opposite: Point, cls: str, *, title: str = "", gap: float = 0) -> None:
        """A rectangle between two corners, smaller by ``gap`` pixels at its right, as for a bar or a cell of a map."""
        (x1, y1), (x2, y2) = self.place(*corner), self.place(*opposite)
        said = [tag("title", title)] if title else []
        wide, high = max(abs(x2 - x1) - gap, 0.5), abs(y2 - y1)
        self._marks.append(
            tag("rect", *said, class_=f"box {cls}", x=min(x1, x2), y=min(y1, y2), width=wide, height=high)
        )

    def squares(self, places: Iterable[Point], cls: str, *, side: float, title: str) -> None:
        """Many points as squares of some pixels, in one element."""
        half = side / 2
        path = "".join(
            f"M{x - half:.1f},{y - half:.1f}h{side:g}v{side:g}h-{side:g}z"
            for x, y in (self.place(*point) for point in places)
        )
        if path:
            self._marks.append(tag("path", tag("title", title), class_=f"box {cls}", d=path))

    def outline(self, corners: Sequence[Point], cls: str, label: str) -> None:
        """A polygon without filling, with a label in its upper left corner."""
        placed = [self.place(*corner) for corner in corners]
        path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in placed) + "z"
        self._marks.append(tag("path", class_=cls, d=path))
        x, y = min(placed, key=lambda corner: corner[0] + corner[1])
        self.write(x + 3, y + 13, label, cls="muted")

    def rule(self, label: str, x: float, *, cls: str = "muted", before: bool = False) -> None:
        """A line across the chart at a figure of the horizontal axis, with its label at the end, left of the line if ``before``."""
        at, _ = self.place(x, self._y.low)
        self._marks.append(tag("line", class_=f"rule {cls}", x1=at, x2=at, y1=_TOP, y2=self.height - _BOTTOM))
        beyond = before or at + _LETTER * len(label) > self.width - _RIGHT
        self.write(at + (-3 if beyond else 3), _TOP - 12, label, cls=cls, anchor="end" if beyond else "start")

    def write(self, x: float, y: float, text: str, *, cls: str = "", anchor: str = "start") -> None:
        """A text at a place in pixels; ``anchor`` is its ``start``, ``middle`` or ``end``."""
        self._marks.append(tag("text", text, class_=f"label {cls}".rstrip(), x=x, y=y, text_anchor=anchor))

    def label(self, labels: Sequence[tuple[float, float, str, str]]) -> None:
        """Names of points beside them: x, y, text and class of each. A name that finds no room gets a line to its point."""
        placed = [(self.place(x, y), text, cls) for x, y, text, cls in labels]
        dots = [(x - 6, y - 6, x + 6, y + 6) for (x, y), _, _ in placed]
        taken: list[_Box] = []
        for (x, y), text, cls in placed:
            wide = _LETTER * len(text)
            spots = [spot for spot in _around(x, y, wide) if self._has_inside(spot)] or [
                (x + 8, y - 7, x + wide, y + 7)
            ]
            free = next((spot for spot in spots if not any(_overlap(spot, other) for other in (*taken, *dots))), None)
            box = free or min(spots, key=lambda spot: sum(_overlap(spot, other) for other in (*taken, *dots)))
            taken.append(box)
            middle = (box[1] + box[3]) / 2
            near = min(max(x, box[0]), box[2])
            if max(abs(near - x), abs(middle - y)) > 12:
                end = middle + (6 if middle < y else -6) if near == x else middle
                self._marks.append(tag("line", class_="leader", x1=x, y1=y, x2=near, y2=end))
            is_left = box[2] <= x
            self.write(box[2 if is_left else 0], middle + 4, text, cls=cls, anchor="end" if is_left else "start")

    def _has_inside(self, box: "_Box") -> bool:
        return box[0] >= self._left and box[2] <= self.width and box[1] >= _TOP - 8 and box[3] <= self.height - _BOTTOM

    def svg(self, title: str, description: str = "") -> Markup:
        """The chart as an element that a screen reader reads as its title and description."""
        return tag(
            "svg",
            *self._axes(),
            *self._marks,
            class_="chart",
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_label=title,
            aria_description=description or None,
        )

    def _axes(self) -> list[Markup]:
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        drawn = []
        for value, text in self._x.ticks():
            at, _ = self.place(value, self._y.low)
            drawn.append(tag("line", class_="grid", x1=at, x2=at, y1=_TOP, y2=bottom))
            drawn.append(tag("text", text, class_="tick", x=at, y=bottom + 16, text_anchor="middle"))
        for value, text in self._y.ticks():
            _, down = self.place(self._x.low, value)
            drawn.append(tag("line", class_="grid", x1=self._left, x2=right, y1=down, y2=down))
            drawn.append(tag("text", text, class_="tick", x=self._left - 7, y=down + 4, text_anchor="end"))
        drawn.append(tag("line", class_="axis", x1=self._left, x2=right, y1=bottom, y2=bottom))
        drawn.append(
            tag("text", self._x.title, class_="title", x=(self._left + right) / 2, y=bottom + 36, text_anchor="middle")
        )
        drawn.append(tag("text", self._y.title, class_="title", x=4, y=_TOP - 12))
        return drawn


_Box = tuple[float, float, float, float]


def _around(x: float, y: float, wide: float) -> list[_Box]:
    """Places for a label, the nearest first: beside its point, above, below, and further away."""
    spots = []
    for away in range(12):
        for down in (0, -_LINE * away, _LINE * away):
            middle = y + down
            spots.append((x + 9, middle - 7, x + 9 + wide, middle + 7))
            spots.append((x - 9 - wide, middle - 7, x - 9, middle + 7))
            if away:
                spots.append((x - wide / 2, middle - 7, x + wide / 2, middle + 7))
    return spots


def _overlap(a: _Box, b: _Box) -> float:
    """The area that two boxes share, in square pixels."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0) * max(high, 0)


def _written(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
