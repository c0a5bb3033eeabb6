"""Rows whose verdict or figures the reference's own uncertainty could change.

Each row is examined by itself, so that its figures don't depend on the rows beside it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from softcheck.operations.bounds import Bounds
from softcheck.operations.ulp import Flags, Scaled, least_quantum

_ARITHMETIC = 2.0**-40
"""Relative error of the bounds as float64 computes them, generously."""

_VISIBLE = 2.0**-10
"""Relative and absolute ULP error that shows nowhere, since ULP figures are printed with three decimals."""

_COUNTED = 2.0**-20
"""ULPs. For a smaller error, neither the histogram's bin nor any printed figure depends on whether the error is
doubled."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Elements whose r may lie on the other side of a power of two than the reference's value; all [rows, columns]."""

    below: Flags
    """r may be less than the power of two under it, where the ULP is half as large."""
    above: Flags
    """r may reach the power of two above it, where the ULP is twice as large."""
    flushed: Flags
    """r may be on the other side of 2^emin, or of half the least subnormal, which decides whether a zero there is
    flushed."""

    @property
    def other_ulp(self) -> Flags:
        """Elements whose ULP may differ from the reference's."""
        return self.below | self.above


def sides(logits: Values, exact: Scaled) -> Sides:
    """Returns the sides that the reference's interval leaves open.

    Maxima whose side every oracle guarantees are excepted.
    """
    if exact.settled:
        nowhere = np.zeros(exact.high.shape, dtype=np.bool_)
        return Sides(nowhere, nowhere, nowhere)
    floor, slack = 2.0 ** (exact.fmt.precision - 1), exact.uncertainty
    with np.errstate(invalid="ignore"):
        from_floor = (exact.high - floor) + exact.low
        subnormal_ulp = exact.quantum == least_quantum(exact.fmt)
        below = (from_floor < slack) & ~subnormal_ulp
        if exact.of_scale is not None:
            below &= ~exact.of_scale
        above = from_floor + slack >= floor
        flushed = subnormal_ulp & (slack > 0)
        if flushed.any():
            flushed &= (np.abs(from_floor) <= slack) | (np.abs((exact.high - 0.5) + exact.low) <= slack)
    rows = np.flatnonzero((below | above | flushed).any(axis=1))
    # Only probabilities have a maximum of 1/c.
    if len(rows) and exact.of_scale is None:
        unknown = ~_known(logits[rows], exact, rows)
        for flags in (below, above, flushed):
            flags[rows] &= unknown
    return Sides(below, above, flushed)


def _known(logits: Values, exact: Scaled, rows: NDArray[np.int64]) -> Flags:
    """Maxima with c copies, c a power of two, whose r lies next to 1/c: ``Reference`` has them on the right side."""
    is_peak = logits == logits.max(axis=1, keepdims=True)
    copies = is_peak.sum(axis=1, keepdims=True)
    power_of_two = (copies & (copies - 1)) == 0
    next_to_it = np.abs(exact.high[rows] * exact.ulp[rows] * copies - 1) < 0.25
    known: Flags = is_peak & power_of_two & next_to_it
    return known


def verdicts(errors: Values, bounds: Bounds, exact: Scaled, sides: Sides) -> Flags:
    """Elements whose error may lie on the other side of its bound, [rows, columns].

    Near a power of two the half ULP of rounding that the bound holds may be half or twice as large.
    """
    with np.errstate(invalid="ignore"):
        margin = exact.uncertainty + _ARITHMETIC * bounds.elements
        gap = errors - bounds.elements
        doubtful = np.abs(gap) <= margin
        if bounds.rounds_result:
            wide = sides.above & (gap > 0) & (gap <= margin + bounds.rounding)
            narrow = sides.below & (gap <= 0) & (gap > -margin - 0.5 * bounds.rounding)
            doubtful |= wide | narrow
    return doubtful


def figures(errors: Values, output: Values, exact: Scaled, sides: Sides) -> Flags:
    """Elements that may count for another ULP error, or as flushed or not, [rows, columns].

    On the other side of a power of two the same error is half or twice as many ULPs. Elements without an error, NaN, are
    in no doubt.
    """
    with np.errstate(invalid="ignore"):
        doubtful = np.isfinite(errors) & (exact.uncertainty > _VISIBLE * np.maximum(1.0, errors))
        doubtful |= sides.other_ulp & (errors > _COUNTED)
    doubtful |= sides.flushed & (output == 0)
    return doubtful


def sums(deviations: Values, bounds: Bounds, exact: Scaled, sides: Sides) -> NDArray[np.bool_]:
    """Rows whose sum may lie on the other side of its allowance, [rows]; NaN deviations are in no doubt."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.abs(deviations) - bounds.sums)
        doubtful = gap <= _ARITHMETIC * bounds.sums
        if sides.other_ulp.any():
            doubtful |= gap <= (sides.other_ulp * bounds.rounding * exact.ulp).sum(axis=1)
    return doubtful
