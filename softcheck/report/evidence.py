"""Evidence that causes are told from: the findings of one variant, the cases that were run, their logits, and sizes of errors."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from oracles.formats import FLOAT32, FORMATS, Values, decode
from softcheck.cases.case import Case
from softcheck.contract import WRONG_KINDS
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Operation, Parameter
from softcheck.operations.registry import DEFAULT, operation
from softcheck.report.model import Cause, Finding

FEWEST_WIDTHS = 8
"""Right cases, or widths, that must have been tried for a class of them to be more than chance."""

FEWEST_FAILING = 3
"""Wrong ones for the same."""

_MOST_ELEMENTS = 2**16
"""Elements of the largest case whose logits are looked at."""

_BEYOND_ROUNDING = 4.0
"""Errors over their bounds that a step in a narrower type, or in an unlucky order, seldom reaches."""

_FAR, _FAR_ULPS, _FAR_SUM = 64.0, 16.0, 0.125
"""Rounding to 16 bits reaches no error that is so many times its bound and of so many ULPs, or so large a deviation of a sum.

This holds at the width where it first shows. In bfloat16 these ULPs are an eighth of the value, and the probe's rows hide more than
that in the columns at their ends.
"""

_MOST = 0.75
"""Share of the findings with a sign that must agree on it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Unexplained findings and the cases that were run."""

    findings: Sequence[Finding]
    cases: dict[str, Case]
    rows: Mapping[str, int]
    """Judged rows of each case."""
    operation: str = DEFAULT
    """The operation by which the findings were judged."""
    dtype: str = ""
    """The dtype of the input; empty if it is not known."""
    weaker: Arithmetic | None = None
    """The arithmetic under which no error of the cases would be a finding; None if there is none."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """The values of the operation's parameters."""
    computing: str = ""
    """Options that name another operation whose answers the variant gives, which explains all wrong values; empty if there is none."""
    damages_memory: bool = False
    """True if writes out of bounds were found that may be behind anything else."""

    @property
    def computed(self) -> Operation:
        """The operation, with its usual parameters."""
        return operation(self.operation)

    @property
    def is_of_logits(self) -> bool:
        """True if answers are made of a row's sum of exponentials and of its logits alone."""
        return bool(self.computed.sum_sign) and {each.name for each in self.computed.operands} == {"x"}

    def answer(self, row: Values, column: int) -> float:
        """The exact answer of an element of a row, [columns], or of the row."""
        found = self.computed.answer(row[None], FLOAT32, "nan").values[0]
        return float(found[min(column, len(found) - 1)])

    def without(self, cause: Cause) -> "Evidence":
        """Returns the evidence that is left without the findings of a cause."""
        return replace(self, findings=[f for f in self.findings if f.id not in cause.findings])

    def wrong_cases(self) -> list[Case]:
        """The cases on which values are wrong."""
        wrong = dict.fromkeys(f.case for f in self.findings if is_wrong(f))
        return [self.cases[case_id] for case_id in wrong if case_id in self.cases]

    def wrong_and_right(self) -> tuple[list[Case], list[Case]]:
        """The cases whose logits are looked at: those on which values are wrong, and the others."""
        wrong = {case.id for case in self.wrong_cases()}
        small = [case for case in self.cases.values() if is_looked_at(case)]
        return [case for case in small if case.id in wrong], [case for case in small if case.id not in wrong]

    def of_probes(self, *names: str) -> list[Finding]:
        """The findings of some probes."""
        return [f for f in self.findings if f.probe in names]


def is_wrong(finding: Finding) -> bool:
    """True if a finding is of a wrong value."""
    return finding.kind in WRONG_KINDS


def cause_of(findings: Sequence[Finding], name: str, **values: object) -> Cause:
    """Returns the cause of some findings in the words of ``causes.toml``, with ``values`` in their places."""
    said = {part: text.format(**values) for part, text in _words()[name].items()}
    return Cause(**said, findings=tuple(f.id for f in findings))


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "causes.toml").read_text(encoding="utf-8"))


def is_looked_at(case: Case) -> bool:
    """True if a case has elements, and few enough that its logits are looked at."""
    return 0 not in case.shape and case.shape[0] * case.shape[1] <= _MOST_ELEMENTS


def values_of(case: Case) -> Values:
    """The logits of a case, [rows, columns]."""
    return decode(case.bits(case.shape[0]), FORMATS[case.dtype])


def peaks(values: Values) -> Values:
    """The largest finite logit of each of the rows that have any."""
    highest: Values = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
    return highest[np.isfinite(highest)]


def largest_size(case: Case) -> float:
    """The largest |x| of a case's finite logits; 0 where none is finite."""
    values = np.abs(values_of(case))
    return float(np.where(np.isfinite(values), values, 0.0).max(initial=0.0))


def row_of(finding: Finding, evidence: Evidence) -> Values | None:
    """The logits of a finding's row, [columns]: of its case, or as the finding holds them; None where neither is known."""
    case, dtype = evidence.cases.get(finding.case), evidence.dtype
    if case is not None and finding.row is not None and is_looked_at(case):
        return np.asarray(values_of(case)[finding.row])
    bits = None if finding.around is None else finding.around.row
    if bits is None or dtype not in FORMATS:
        return None
    fmt = FORMATS[dtype]
    return decode(np.array([int(word, 16) for word in bits.split()], dtype=fmt.storage), fmt)


def may_be_rounding(finding: Finding) -> bool:
    """True if a finding shows an error that is so near to its bound that rounding alone may make it."""
    share = finding.facts.over_bound
    return share is not None and share < _BEYOND_ROUNDING


def is_far(finding: Finding) -> bool:
    """True if a finding shows an error that rounding to 16 bits does not make in the shortest row in which it shows."""
    facts = finding.facts
    if facts.over_bound is None or facts.over_bound < _FAR:
        return False
    return facts.ulps >= _FAR_ULPS if facts.ulps is not None else abs(facts.sum_off or 0.0) >= _FAR_SUM


def sums_too_small(findings: Iterable[Finding]) -> bool:
    """True if sums are known and most of them miss 1 by less than nothing, beyond rounding."""
    known = [(f, f.facts.sum_off) for f in findings if f.facts.sum_off is not None]
    return (
        bool(known)
        and sum(by < 0 for _, by in known) >= _MOST * len(known)
        and any(by < 0 and not may_be_rounding(f) for f, by in known)
    )


def as_of_left_out(findings: Iterable[Finding], limit: int, sum_sign: int) -> bool | None:
    """True if answers err as where the columns from ``limit`` on take no part: softmax too large, sums too small; None if nothing tells it."""
    told = [agrees for f in findings if (agrees := _agrees(f, limit, sum_sign)) is not None]
    return sum(told) >= _MOST * len(told) if told else None


def _agrees(finding: Finding, limit: int, sum_sign: int) -> bool | None:
    if not sum_sign:
        return None
    facts = finding.facts
    if facts.sum_off is not None:
        return facts.sum_off > 0
    output, expected = facts.output, facts.expected
    if output is None or expected is None or math.isnan(output) or math.isnan(expected):
        return None
    if sum_sign > 0:
        return output < expected
    return output > expected or (output == 0 and finding.column is not None and finding.column >= limit)
