"""The place where an arithmetic leaves the standard contract: beyond a certain |x|, or from a number of columns on.

Derived in docs/bounds.md, section 15. Imports neither torch nor Triton.
"""

import math

import numpy as np

from oracles.formats import FORMATS, Format
from oracles.reference import Reference
from softcheck.judge.judge import STANDARD, reference
from softcheck.operations import ulp
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import bounds, model

COLUMNS = 1025
"""Columns of the rows on which |x| is searched for. 1/1025 lies just below a power of two, where an ULP is smallest
beside the value."""

FACTOR = 2.0
"""Multiple of the standard bound that counts as outside it. A kernel that uses half of its own bound, as adversarial
rows do (docs/bounds.md, section 12), is there beyond the standard bound."""

_WIDEST = 2**12


def departure(arithmetic: Arithmetic, dtype: str) -> str | None:
    """Words for the place where an arithmetic leaves the standard contract; None if it leaves it nowhere.

    Only 16-bit sums or intermediate values, and logits scaled before the maximum is subtracted, leave it.
    """
    fmt = FORMATS[dtype]
    if fmt.width == 16 and "input" in (arithmetic.accumulation, arithmetic.intermediate):
        columns = columns_beyond(arithmetic, fmt)
        what = "sums" if arithmetic.accumulation == "input" else "intermediate values"
        return None if columns is None else f"from {columns} columns on: {what} in {dtype}"
    if arithmetic.exp != "prescaled_ex2_approx" and not arithmetic.scaled_logits:
        return None
    magnitude = magnitude_beyond(arithmetic, fmt)
    if magnitude is None:
        return None
    return f"beyond |x| \N{ALMOST EQUAL TO} {_two_digits(magnitude)}: logits scaled before the maximum is subtracted"


def magnitude_beyond(arithmetic: Arithmetic, fmt: Format) -> float | None:
    """Largest |x|, to a percent, at which the bound is at most ``FACTOR`` times the standard one; None if every |x| is.

    The rows are ``COLUMNS`` logits equal to x, up to the format's largest finite number.
    """
    exact = reference(np.zeros((1, COLUMNS)), fmt)
    standard = _bound(STANDARD, fmt, exact, 0.0)

    def outside(magnitude: float) -> bool:
        return _bound(arithmetic, fmt, exact, magnitude) > FACTOR * standard

    inside, beyond = 2.0**-20, fmt.max
    if not outside(beyond):
        return None
    while beyond > 1.01 * inside:
        middle = math.sqrt(inside) * math.sqrt(beyond)
        inside, beyond = (inside, middle) if outside(middle) else (middle, beyond)
    return inside


def columns_beyond(arithmetic: Arithmetic, fmt: Format) -> int | None:
    """Fewest columns of equal logits on which the bound is over ``FACTOR`` times the standard one; None up to 4096."""
    for columns in range(2, _WIDEST + 1):
        exact = reference(np.zeros((1, columns)), fmt)
        if _bound(arithmetic, fmt, exact, 0.0) > FACTOR * _bound(STANDARD, fmt, exact, 0.0):
            return columns
    return None


def _bound(arithmetic: Arithmetic, fmt: Format, exact: Reference, magnitude: float) -> float:
    """Largest error in ULP that an arithmetic allows on a row of logits equal to ``magnitude``."""
    values = np.full(exact.high.shape, magnitude)
    return float(bounds(values, ulp.scaled(exact, fmt), exact.values, model(arithmetic, fmt)).elements[0, 0])


def _two_digits(value: float) -> str:
    """A figure to two significant digits, without an exponent up to 100000."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e5 else f"{rounded:g}"
