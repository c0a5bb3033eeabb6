"""Findings of one variant and the cases that were run, from which causes are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softcheck.cases.case import Case
from softcheck.contract import WRONG_KINDS
from softcheck.report.model import Cause, Finding

FEWEST_WIDTHS = 8
"""Right cases, or widths, that must have been tried for a class of them to be more than chance."""

FEWEST_FAILING = 3
"""Wrong ones for the same."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Unexplained findings and the cases that were run."""

    findings: Sequence[Finding]
    cases: dict[str, Case]
    rows: Mapping[str, int]
    """Judged rows of each case."""
    operation: str = "softmax"
    """The operation by which the findings were judged."""
    by_case: dict[str, list[Finding]] = field(default_factory=dict)

    def without(self, ids: frozenset[str]) -> "Evidence":
        """Returns the evidence that is left without the findings of these ids."""
        return evidence_of([f for f in self.findings if f.id not in ids], self.cases, self.rows, self.operation)

    def wrong_cases(self) -> list[Case]:
        """The cases on which values are wrong."""
        return [self.cases[c] for c, found in self.by_case.items() if c in self.cases and any(map(is_wrong, found))]

    def of_probes(self, *names: str) -> list[Finding]:
        """The findings of some probes."""
        return [f for f in self.findings if f.probe in names]


def evidence_of(
    findings: Sequence[Finding], cases: dict[str, Case], rows: Mapping[str, int], operation: str = "softmax"
) -> Evidence:
    """Returns an operation's findings with the cases that were run, by id, and with their numbers of judged rows."""
    found = Evidence(findings, cases, rows, operation)
    for finding in findings:
        found.by_case.setdefault(finding.case, []).append(finding)
    return found


def is_wrong(finding: Finding) -> bool:
    """True if a finding is of a wrong value."""
    return finding.kind in WRONG_KINDS


def cause_of(findings: Sequence[Finding], text: str, *, mend: str = "", declare: str = "", right_on: str = "") -> Cause:
    """Returns the cause of some findings in words, with the usual mend, or with a declaration and what is right then."""
    return Cause(text=text, mend=mend, declare=declare, right_on=right_on, findings=tuple(f.id for f in findings))
