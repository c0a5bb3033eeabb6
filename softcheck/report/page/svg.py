"""Charts as SVG: axes with ticks as people write them, marks, rules, and names in the margin.

Colours are classes that ``page.css`` defines for both schemes: ``series-1`` and ``series-2`` for lines and dots, ``pass``,
``known``, ``fail``, ``unsupported`` and ``error`` for verdicts, ``muted`` for what stands behind.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from xml.etree import ElementTree as ET

from markupsafe import Markup

Point = tuple[float, float]
Mark = Literal["circle", "ring", "cross"]

_LEFT, _TOP, _BOTTOM = 64.0, 30.0, 46.0
"""Margins in pixels, with room for the ticks' labels and the axes' titles."""

_LETTER, _LINE = 7.2, 14.0
"""Width and height of a letter in pixels, at the 12 pixels of ``page.css``, rather too wide than too narrow."""
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
            least = (self.high - self.low) / _MOST_TICKS
            step = _ones_twos_fives(least, 10 * least)[0]
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


class Chart:
    """A chart with two axes, whose marks are drawn in the order of the calls; sizes and the right margin are in pixels."""

    def __init__(self, x: Axis, y: Axis, *, width: float = 640, height: float = 340, right: float = 16) -> None:
        self._x, self._y = x, y
        self._right, self._bottom = width - right, height - _BOTTOM
        self._drawn = ET.Element("svg", {"class": "chart", "viewBox": f"0 0 {width:g} {height:g}", "role": "img"})
        for value, text in x.ticks():
            at, _ = self.place(value, y.low)
            self._add("line", "grid", x1=at, x2=at, y1=_TOP, y2=self._bottom)
            self.write(at, self._bottom + 16, text, "tick", anchor="middle")
        for value, text in y.ticks():
            _, down = self.place(x.low, value)
            self._add("line", "grid", x1=_LEFT, x2=self._right, y1=down, y2=down)
            self.write(_LEFT - 7, down + 4, text, "tick", anchor="end")
        self._add("line", "axis", x1=_LEFT, x2=self._right, y1=self._bottom, y2=self._bottom)
        self.write((_LEFT + self._right) / 2, self._bottom + 36, x.title, "title", anchor="middle")
        self.write(4, _TOP - 12, y.title, "title")

    def _add(self, name: str, cls: str, text: str = "", title: str = "", **attributes: object) -> None:
        """An element with numbers to a tenth of a pixel, and with a title where the pointer rests on it."""
        written = {k.replace("_", "-"): f"{v:.1f}" if isinstance(v, float) else str(v) for k, v in attributes.items()}
        element = ET.SubElement(self._drawn, name, {"class": cls, **written})
        element.text = text or None
        if title:
            ET.SubElement(element, "title").text = title

    def place(self, x: float, y: float) -> Point:
        """The pixels of a point; a point beyond the axes is put on their ends."""
        across, up = self._x.share(x), self._y.share(y)
        return _LEFT + across * (self._right - _LEFT), self._bottom - up * (self._bottom - _TOP)

    def line(self, points: Iterable[Point], cls: str, *, step: bool = False) -> None:
        """A line through points, or with ``step`` one that keeps each height up to the next point."""
        placed = [self.place(*point) for point in points]
        if step:
            placed = [p for a, b in pairwise(placed) for p in (a, (b[0], a[1]))] + placed[-1:]
        self._add("path", f"line {cls}", d="M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in placed))

    def dot(self, x: float, y: float, cls: str, *, mark: Mark = "circle", title: str = "") -> None:
        """A point as a disc, a ring or a cross; ``title`` shows where the pointer rests on it."""
        at, down = self.place(x, y)
        if mark == "cross":
            self._add("path", f"cross {cls}", title=title, d=f"M{at - 4:.1f},{down - 4:.1f}l8,8m0,-8l-8,8")
        else:
            self._add("circle", f"{mark} {cls}", title=title, cx=at, cy=down, r=4.5)

    def bar(self, corner: Point, opposite: Point, cls: str, *, title: str) -> None:
        """A rectangle between two corners, a pixel narrower at its right."""
        (x1, y1), (x2, y2) = self.place(*corner), self.place(*opposite)
        wide, high = max(abs(x2 - x1) - 1, 0.5), abs(y2 - y1)
        self._add("rect", f"box {cls}", title=title, x=min(x1, x2), y=min(y1, y2), width=wide, height=high)

    def rule(self, label: str, x: float, *, cls: str = "muted", before: bool = False) -> None:
        """A line across the chart at a figure of the horizontal axis, with its label at the end, left of the line if ``before``."""
        at, _ = self.place(x, self._y.low)
        self._add("line", f"rule {cls}", x1=at, x2=at, y1=_TOP, y2=self._bottom)
        is_left = before or at + _LETTER * len(label) > self._right
        self.write(at + (-3 if is_left else 3), _TOP - 12, label, f"label {cls}", anchor="end" if is_left else "start")

    def write(self, x: float, y: float, text: str, cls: str, *, anchor: str = "start") -> None:
        """A text at a place in pixels; ``anchor`` is its ``start``, ``middle`` or ``end``."""
        self._add("text", cls, text, x=x, y=y, text_anchor=anchor)

    def names(self, labels: Sequence[tuple[float, float, str, str]]) -> None:
        """Names of points in the right margin, in the order of their heights, with lines to them: x, y, text and class of each."""
        placed = sorted((self.place(x, y)[::-1], text, cls) for x, y, text, cls in labels)
        last = -math.inf
        for left, ((y, x), text, cls) in zip(range(len(placed) - 1, -1, -1), placed, strict=True):
            last = max(last + _LINE, min(y, self._bottom - _LINE * left))
            self._add("line", "leader", x1=x, y1=y, x2=self._right + 4, y2=last)
            self.write(self._right + 7, last + 4, text, f"label {cls}")

    def svg(self, title: str, description: str) -> Markup:
        """The chart as an element that a screen reader reads as its title and description."""
        self._drawn.attrib |= {"aria-label": title, "aria-description": description}
        return Markup(ET.tostring(self._drawn, encoding="unicode"))  # noqa: S704 - it escapes what it holds
