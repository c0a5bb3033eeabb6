"""Soft caps of logits, c tanh(x / c): their values, and the error that a right arithmetic makes (docs/bounds.md, section 26)."""

import numpy as np

from oracles.formats import Values
from softcheck.errors import UsageError

RELATIVE = 2.0**-49
"""Relative error of ``capped``: the division, numpy's tanh, of at most 4 ULPs, and the product round in float64."""

_ROUNDINGS = 8.0
"""Of a capped logit, relative to itself: the cap and its reciprocal, the quotient, a library's tanh of 2 ULPs, and the product."""

_BY_EXPONENTIALS = 12.0
"""Absolute error in units of c rho of a tanh that is made of an exponential, as 2 / (1 + exp(-2 t)) - 1 is."""


def check(softcap: float) -> None:
    """Raises UsageError for a cap that is negative or not finite; 0 is none."""
    if not 0.0 <= softcap < np.inf:
        raise UsageError(f"the softcap is {softcap:g}; expected a number above 0, such as 30, or 0 for none")


def capped(values: Values, softcap: float) -> Values:
    """Returns c tanh(x / c) in float64, off by ``RELATIVE`` of itself at most; -inf stays -inf, since it hides a column."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(np.isneginf(values), -np.inf, softcap * np.tanh(values / softcap))


def slope(values: Values, softcap: float) -> Values:
    """Returns 1 - tanh(x / c)^2, off by 2^-50 at most."""
    with np.errstate(over="ignore", under="ignore"):
        found: Values = 1.0 - np.tanh(np.where(np.isneginf(values), 0.0, values) / softcap) ** 2
    return found


def error(logits: Values, softcap: float, roundoff: float) -> Values:
    """Returns the largest absolute error of logits that an arithmetic with this roundoff has capped."""
    return roundoff * (_ROUNDINGS * np.abs(logits) + _BY_EXPONENTIALS * softcap)
