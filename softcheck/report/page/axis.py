"""Axes of charts: linear or logarithmic, with ticks as people write them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

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
