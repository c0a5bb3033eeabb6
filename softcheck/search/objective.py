"""What a search for the worst row looks for."""

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
    """The judged maximum as a number to compare: infinite where an output is no number or a mask leaks, -1 without one."""
    if any(violation.kind in _NO_NUMBER or violation.row is None for violation in measurement.violations):
        return math.inf
    worst = extreme(measurement, objective)
    return -1.0 if worst is None else worst.value
