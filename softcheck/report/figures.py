"""Figures as text, true as printed: bounds round to their safe side, and nothing unmeasured is 0."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from softcheck.report.model import Exhaustive, VariantResult

NOT_MEASURED = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


def figure(value: float | None, rounding: str = ROUND_HALF_EVEN) -> str:
    """A number in some seven characters, rounded by a mode of the ``decimal`` module; a dash where nothing was measured."""
    if value is None:
        return NOT_MEASURED
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    exact = Decimal(repr(value))
    magnitude = exact.adjusted()
    if magnitude < -3 or magnitude > 5:
        return f"{exact.quantize(Decimal((0, (1,), magnitude - 1)), rounding):.1e}"
    last_place = -3 if magnitude < 1 else -1 if magnitude < 3 else 0
    return str(exact.quantize(Decimal((0, (1,), last_place)), rounding))


def percent(value: float | None) -> str:
    """A share in whole percent, rounded down, so that 100 % is everything."""
    return NOT_MEASURED if value is None else f"{math.floor(value)}%"


def max_ulp(result: VariantResult | Exhaustive) -> str:
    """The maximum with its sense: ``= 0.501`` over everything there is, ``≥ 0.501`` (rounded down) over samples."""
    if result.max_ulp is None:
        return NOT_MEASURED
    if result.ulp_is == "exact":
        return f"= {figure(result.max_ulp)}"
    return max_ulp_of_samples(result.max_ulp)


def max_ulp_of_samples(value: float | None) -> str:
    """A maximum over samples, a lower bound and so rounded down: ``≥ 0.501``."""
    return NOT_MEASURED if value is None else f"≥ {figure(value, ROUND_FLOOR)}"


def bound_share(value: float | None) -> str:
    """Error over bound, two decimals, rounded away from 1: what reads ``1.00`` is exactly on the bound."""
    if value is None or not math.isfinite(value) or value >= 100:
        return figure(value, ROUND_CEILING)
    return str(Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_CEILING if value > 1 else ROUND_FLOOR))


def speed(value: float | None) -> str:
    """GB/s, in whole numbers from 100 on."""
    return NOT_MEASURED if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def ratio(value: float | None) -> str:
    """Times faster (above 1) or slower than the reference."""
    return NOT_MEASURED if value is None else f"{value:.2f}{TIMES}"


def duration(seconds: float) -> str:
    """Seconds, or minutes and seconds from two minutes on."""
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def plural(number: int, singular: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{number:,} {singular}" if number == 1 else f"{number:,} {singular}s"


def alike(said: Iterable[tuple[str, str]], most: int | None = None) -> list[str]:
    """Lines of subjects and texts, each text once: all of its subjects in front, or of more than ``most`` the first and their number."""
    subjects: dict[str, list[str]] = {}
    for subject, text in said:
        subjects.setdefault(text, []).append(subject)
    return [f"{several(of, most)}: {text}" for text, of in subjects.items()]


def several(names: Sequence[str], most: int | None = 1) -> str:
    """The names, or of more than ``most`` the first and the number of the others."""
    is_few = most is None or len(names) <= most
    return ", ".join(names) if is_few else f"{names[0]} and {len(names) - 1} more"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells with a title and a heading; the first column is text, and so are the others unless they are numbers."""

    title: str
    heading: list[str]
    rows: list[list[str]]
    are_numbers: bool = True

    def lines(self) -> list[str]:
        """The heading and the rows in plain text, two spaces between columns; numbers end together."""
        every = [self.heading, *self.rows]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        places = ["<", *(">" if self.are_numbers else "<" for _ in widths[1:])]
        return ["  ".join(map("{:{}{}}".format, row, places, widths)).rstrip() for row in every]
