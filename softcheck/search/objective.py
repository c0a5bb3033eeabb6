"""Objectives of a search for the worst row."""

import math
from typing import Literal

from softcheck.contract import FindingKind
from softcheck.judge.measurement import Extreme, Measurement

Objective = Literal["bound", "ulp"]
"""The largest error over bound, or the largest ULP error."""

_NO_NUMBER = frozenset({FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH, FindingKind.MASKED_NOT_ZERO})


def extreme(measurement: Measurement, objective: Objective) -> Extreme | None:
    """The judged maximum of the objective with its element."""
    return measurement.max_bound_share if objective == "bound" else measurement.max_ulp


def badness(measurement: Measurement, objective: Objective) -> float:
    """Returns the judged maximum as a number to compare.

    It is infinite if an output is no number or a mask leaks, and -1 if there is no maximum.
    """
    if any(violation.kind in _NO_NUMBER or violation.row is None for violation in measurement.violations):
        return math.inf
    worst = extreme(measurement, objective)
    return -1.0 if worst is None else worst.value
