"""Where the reference's own uncertainty could change what is said of a row."""

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from softcheck.judge.bounds import Bounds
from softcheck.judge.ulp import Flags, Scaled

_ARITHMETIC = 2.0**-40
"""Relative error of the bounds as float64 computes them, generously."""

_VISIBLE = 2.0**-10
"""ULP figures are printed with three decimals; a smaller change of a maximum, absolute and relative, shows nowhere."""


def verdicts(errors: Values, bounds: Bounds, exact: Scaled) -> Flags:
    """Elements whose error may lie on the other side of its bound, [rows, columns].

    Near a power of two the half ULP of rounding that the bound holds may be half or twice as large.
    """
    with np.errstate(invalid="ignore"):
        margin = exact.uncertainty + _ARITHMETIC * bounds.elements
        gap = errors - bounds.elements
        doubtful = np.abs(gap) <= margin
        if bounds.rounds_result:
            wide = exact.may_lie_above & (gap > 0) & (gap <= margin + bounds.rounding)
            narrow = exact.may_lie_below & (gap <= 0) & (gap > -margin - 0.5 * bounds.rounding)
            doubtful |= wide | narrow
    return doubtful


def figures(errors: Values, exact: Scaled, largest_ulp: float, comparable: Flags) -> Flags:
    """Elements that may or may not set the case's largest ULP error, [rows, columns].

    On the other side of a power of two the same error is half or twice as many ULPs.
    """
    uncertain = (exact.may_lie_above | exact.may_lie_below | (exact.uncertainty > _VISIBLE)) & comparable
    doubtful = np.zeros(errors.shape, dtype=np.bool_)
    if not uncertain.any():
        return doubtful
    sure = errors[comparable & ~uncertain]
    where = np.nonzero(uncertain)
    error, slack = errors[where], exact.uncertainty[where]
    with np.errstate(over="ignore"):
        most = (error + slack) * np.where(exact.may_lie_below[where], 2.0, 1.0)
    least = np.maximum(error - slack, 0.0) * np.where(exact.may_lie_above[where], 0.5, 1.0)
    reached = max(largest_ulp, float(least.max()), float(sure.max(initial=0.0)))
    visible = _VISIBLE * np.maximum(1.0, error)
    doubtful[where] = (most - least > visible) & (most > reached + _VISIBLE * max(1.0, reached))
    return doubtful


def sums(deviations: Values, bounds: Bounds, exact: Scaled) -> NDArray[np.bool_]:
    """Rows whose sum may lie on the other side of what is allowed, [rows]; NaN deviations are in no doubt."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.abs(deviations) - bounds.sums)
        doubtful = gap <= _ARITHMETIC * bounds.sums
        straddling = exact.may_lie_above | exact.may_lie_below
        if straddling.any():
            doubtful |= gap <= (straddling * bounds.rounding * exact.ulp).sum(axis=1)
    return doubtful
