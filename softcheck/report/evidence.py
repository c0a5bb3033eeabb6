"""Findings of one variant and the cases that were run, from which causes are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from softcheck.cases.case import Case
from softcheck.contract import WRONG_KINDS
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Parameter
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
    by_case: Mapping[str, Sequence[Finding]]
    operation: str = "softmax"
    """The operation by which the findings were judged."""
    dtype: str = ""
    """The dtype of the input; empty if it is not known."""
    weaker: Arithmetic | None = None
    """The arithmetic under which no error of the cases would be a finding; None if there is none."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """The values of the operation's parameters."""

    def without(self, ids: frozenset[str]) -> "Evidence":
        """Returns the evidence that is left without the findings of these ids."""
        left = [f for f in self.findings if f.id not in ids]
        return replace(self, findings=left, by_case=_by_case(left))

    def wrong_cases(self) -> list[Case]:
        """The cases on which values are wrong."""
        return [self.cases[c] for c, found in self.by_case.items() if c in self.cases and any(map(is_wrong, found))]

    def of_probes(self, *names: str) -> list[Finding]:
        """The findings of some probes."""
        return [f for f in self.findings if f.probe in names]


def evidence_of(
    findings: Sequence[Finding],
    cases: Sequence[Case],
    rows: Mapping[str, int] | None = None,
    *,
    operation: str = "softmax",
    weaker: Arithmetic | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    dtype: str = "",
) -> Evidence:
    """Returns an operation's findings with the cases that were run, all of one dtype, and with their numbers of judged rows by id.

    Left out, ``rows`` are all rows. ``weaker`` is an arithmetic that allows the errors of all cases.
    """
    run = {case.id: case for case in cases}
    judged = rows or {case.id: case.shape[0] for case in cases}
    dtype = dtype or (cases[0].dtype if cases else "")
    return Evidence(findings, run, judged, _by_case(findings), operation, dtype, weaker, parameters or {})


def _by_case(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.case, []).append(finding)
    return found


def is_wrong(finding: Finding) -> bool:
    """True if a finding is of a wrong value."""
    return finding.kind in WRONG_KINDS


def cause_of(findings: Sequence[Finding], text: str, *, mend: str = "", declare: str = "", right_on: str = "") -> Cause:
    """Returns the cause of some findings in words, with the usual fix, or with a declaration and what is right then."""
    return Cause(text=text, mend=mend, declare=declare, right_on=right_on, findings=tuple(f.id for f in findings))
