"""The logits of cases and of findings' rows, which tell what errors can be attributed to."""

from collections.abc import Mapping

import numpy as np

from oracles.formats import FORMATS, Values, decode
from softcheck.cases.case import Case
from softcheck.report.model import Finding

_MOST_ELEMENTS = 2**16
"""Elements of the largest case whose logits are looked at."""


def is_looked_at(case: Case) -> bool:
    """True if a case has elements, and few enough that its logits are looked at."""
    return 0 not in case.shape and case.shape[0] * case.shape[1] <= _MOST_ELEMENTS


def peaks(case: Case) -> tuple[float, float] | None:
    """The lowest and the highest largest finite logit of a case's rows; None where no logit is finite."""
    values = values_of(case)
    highest = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
    highest = highest[np.isfinite(highest)]
    return (float(highest.min()), float(highest.max())) if highest.size else None


def row_peak(case: Case, row: int) -> float | None:
    """The largest finite logit of one row of a case; None where none is finite."""
    values = values_of(case)[row]
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else None


def row_of(finding: Finding, cases: Mapping[str, Case], dtype: str) -> Values | None:
    """The logits of a finding's row, [columns]: of its case, or as the finding holds them; None where neither is known."""
    case = cases.get(finding.case)
    if case is not None and finding.row is not None and is_looked_at(case):
        return np.asarray(values_of(case)[finding.row])
    bits = None if finding.around is None else finding.around.row
    if bits is None or dtype not in FORMATS:
        return None
    fmt = FORMATS[dtype]
    return decode(np.array([int(word, 16) for word in bits.split()], dtype=fmt.storage), fmt)


def largest_size(case: Case) -> float:
    """The largest |x| of a case's finite logits; 0 where none is finite."""
    values = np.abs(values_of(case))
    return float(np.where(np.isfinite(values), values, 0.0).max(initial=0.0))


def values_of(case: Case) -> Values:
    """The logits of a case, [rows, columns]."""
    return decode(case.bits(case.shape[0]), FORMATS[case.dtype])
