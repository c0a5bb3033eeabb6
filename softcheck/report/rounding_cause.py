"""The cause of errors that are as large as rounding to the input's 16 bits makes them, and no larger."""

from softcheck.contract import BOUNDED_KINDS
from softcheck.operations.arithmetic import Arithmetic
from softcheck.report.error_sizes import is_far
from softcheck.report.evidence import Evidence, cause_of
from softcheck.report.model import Cause
from softcheck.report.width_causes import of_widths, widest_sweep

_OTHERS = frozenset({"torch_transforms", "first_rows"})
"""Probes that compare a call with one that is right, so that rounding explains none of their findings."""


def of_rounding(evidence: Evidence) -> Cause | None:
    """Findings of errors, where those of all cases are within what rounding to the input's format allows.

    A sum that may be kept in 16 bits allows nearly everything in wide rows, so that widths come before it where the narrowest row that is wrong errs by
    more than rounding does.
    """
    if evidence.weaker is None or evidence.dtype not in ("float16", "bfloat16"):
        return None
    steps = _rounded(evidence.weaker)
    first = widest_sweep(evidence)
    if not steps or (first is not None and is_far(first) and of_widths(evidence) is not None):
        return None
    found = [
        f
        for f in evidence.findings
        if f.kind in BOUNDED_KINDS and (f.probe is None or (f.probe not in _OTHERS and not is_far(f)))
    ]
    return cause_of(
        found,
        f"{' and '.join(steps)} seem to be rounded to {evidence.dtype}: none of these errors is larger than that makes it",
        mend="convert to float32 before anything is computed, and round the result alone",
    )


def _rounded(arithmetic: Arithmetic) -> list[str]:
    """The steps whose results an arithmetic rounds to the input's format; empty if it rounds none."""
    said = {"intermediate results": arithmetic.intermediate, "sums": arithmetic.accumulation}
    return [words for words, kept_in in said.items() if kept_in == "input"]
