"""The largest logits of a case, which tell what its errors can be laid to."""

import numpy as np

from oracles.formats import FORMATS, Values, decode
from softcheck.cases.case import Case

_MOST_ELEMENTS = 2**16
"""Elements of the largest case whose logits are looked at."""


def is_looked_at(case: Case) -> bool:
    """True if a case has elements, and few enough that its logits are looked at."""
    return 0 not in case.shape and case.shape[0] * case.shape[1] <= _MOST_ELEMENTS


def peaks(case: Case) -> tuple[float, float] | None:
    """The lowest and the highest largest finite logit of a case's rows; None where no logit is finite."""
    values = _values(case)
    highest = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
    highest = highest[np.isfinite(highest)]
    return (float(highest.min()), float(highest.max())) if highest.size else None


def row_peak(case: Case, row: int) -> float | None:
    """The largest finite logit of one row of a case; None where none is finite."""
    values = _values(case)[row]
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else None


def largest_size(case: Case) -> float:
    """The largest |x| of a case's finite logits; 0 where none is finite."""
    values = np.abs(_values(case))
    return float(np.where(np.isfinite(values), values, 0.0).max(initial=0.0))


def _values(case: Case) -> Values:
    return decode(case.bits(case.shape[0]), FORMATS[case.dtype])
