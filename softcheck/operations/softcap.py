"""Soft caps of logits, c tanh(x / c): their values, and the error that a right arithmetic makes (docs/bounds.md, section 28)."""

from dataclasses import replace

import numpy as np

from oracles.formats import Values
from softcheck.errors import UsageError
from softcheck.operations.bounds import Model
from softcheck.operations.expression import module_of, quiet

RELATIVE = 2.0**-49
"""Relative error of ``capped``: the division, numpy's tanh, of at most 4 ULPs, and the product round in float64."""

_ROUNDINGS = 11.0
"""Of a capped logit, relative to itself: a scale and its product, the cap, its reciprocal, the quotient, a library's tanh of 2 ULPs, which
counts as 4, and two products."""

_BY_EXPONENTIALS = 12.0
"""Absolute error in units of c rho of a tanh that is made of an exponential, as 2 / (1 + exp(-2 t)) - 1 is."""


def check(softcap: float) -> None:
    """Raises UsageError for a cap that is negative or not finite; 0 is none."""
    if not 0.0 <= softcap < np.inf:
        raise UsageError(f"the softcap is {softcap:g}; expected a number above 0, such as 30, or 0 for none")


def capped(values: Values, softcap: float) -> Values:
    """Returns c tanh(x / c) in float64, off by ``RELATIVE`` of itself at most; -inf stays -inf, since it hides a column."""
    xp = module_of(values)
    with quiet(values):
        found: Values = xp.where(xp.isneginf(values), -np.inf, softcap * xp.tanh(values / softcap))
    return found


def slope(values: Values, softcap: float) -> Values:
    """Returns 1 - tanh(x / c)^2, off by 2^-50 at most."""
    with np.errstate(over="ignore", under="ignore"):
        found: Values = 1.0 - np.tanh(np.where(np.isneginf(values), 0.0, values) / softcap) ** 2
    return found


def with_cap(model: Model, softcap: float) -> Model:
    """Returns an arithmetic's constants for logits that it has capped, or scaled and capped."""
    return replace(
        model,
        scaling=max(model.scaling, _ROUNDINGS * model.roundoff) * (1 + model.exponent),
        logit_error=model.logit_error + _BY_EXPONENTIALS * model.roundoff * softcap,
    )
