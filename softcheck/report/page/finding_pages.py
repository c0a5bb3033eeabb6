"""The pages of findings: of each cause or kind the first finding whole, and the others as lines that a link can reach."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from softcheck.contract import Surroundings
from softcheck.report import content, figures
from softcheck.report.content import FindingGroup
from softcheck.report.model import Finding, Report
from softcheck.report.snippet import shrunk_input, snippet_of

ELEMENT_COLUMNS = ("column", "input bits", "input", "output bits", "output", "exact", "ULP", "bound")


@dataclass(frozen=True, slots=True)
class ElementRow:
    """One element around a witness: its cells under ``ELEMENT_COLUMNS``."""

    cells: tuple[str, ...]
    is_witness: bool


@dataclass(frozen=True, slots=True)
class FindingPage:
    """One finding with everything that is known of it, and the others of its group."""

    finding: Finding
    title: str
    message: str
    known: str
    elements: list[ElementRow]
    row: list[tuple[str, str]]
    """Bits and values of the whole input row; empty if it is wide or unknown."""
    shrunk: list[list[tuple[str, str]]]
    """Bits and values of the rows of the shrunk input; empty if there is none."""
    commands: list[tuple[str, str]]
    """Commands with their labels."""
    snippet: str | None
    script: list[str]
    others: list[tuple[str, str, str]]
    """Id, place and message of each other finding of the group."""


def contents(report: Report) -> Mapping[str, object] | None:
    """The pages, those that no declared defect explains first; None if nothing was found."""
    pages = list(_pages(report))
    return {"pages": pages, "columns": ELEMENT_COLUMNS} if pages else None


def anchor_of(finding: Finding) -> str:
    """The anchor of a finding: ``finding-9591356e8140``."""
    return f"finding-{finding.id}"


def _pages(report: Report) -> Iterator[FindingPage]:
    seen: set[str] = set()
    for known in (False, True):
        for group in content.finding_groups(report, known=known):
            own = [f for f in _members(group, known=known) if f.id not in seen]
            seen.update(f.id for f in own)
            if group.first in own:
                yield _page(group, report, [f for f in own if f is not group.first])


def _members(group: FindingGroup, *, known: bool) -> list[Finding]:
    """The findings of a group, each id once."""
    if group.cause is not None:
        ids = set(group.cause.findings)
        found = [f for f in group.result.findings if f.id in ids]
    else:
        like = (group.first.kind, group.first.known, group.first.from_probe)
        found = [f for f in group.result.findings if (f.kind, f.known, f.from_probe) == like]
    return list({f.id: f for f in found if (f.known is not None) == known}.values())


def _page(group: FindingGroup, report: Report, others: list[Finding]) -> FindingPage:
    finding, dtype = group.first, group.result.dtype
    around = finding.around
    smallest = next((f for f in (finding, *others) if shrunk_input(f) is not None), finding)
    shrunk = shrunk_input(smallest)
    # A command that holds a wide row would bury the rest; it is in the JSON.
    save = [("keep the smallest input as a regression", smallest.save)] if smallest.save and shrunk is not None else []
    return FindingPage(
        finding=finding,
        title=f"{content.subject(group.result)}: {group.extent}",
        message=content.one_line(finding.message),
        known=content.one_line(finding.known or ""),
        elements=list(_elements(around, finding.column, dtype)) if around is not None else [],
        row=_valued(around.row, dtype) if around is not None and around.row is not None else [],
        shrunk=[_valued(row, dtype) for row in shrunk.split(";")] if shrunk is not None else [],
        commands=[(label, content.command(text)) for label, text in [("show it again", finding.reproduce), *save]],
        snippet=snippet_of(finding, group.result, report),
        script=content.script_lines(finding),
        others=[(anchor_of(f), content.place(f), content.one_line(f.message)) for f in others],
    )


def _elements(around: Surroundings, witness: int | None, dtype: str) -> Iterator[ElementRow]:
    parts = (around.inputs, around.outputs, around.exact, around.ulps, around.bounds)
    for at, (given, got, exact, ulp, bound) in enumerate(zip_longest(*(part.split() for part in parts), fillvalue="")):
        column = around.first_column + at
        limits = (figures.NOT_MEASURED if figure == "-" else figure for figure in (ulp, bound))
        cells = (
            str(column),
            given,
            content.decimal_of(given, dtype),
            got,
            content.decimal_of(got, dtype),
            exact,
            *limits,
        )
        yield ElementRow(cells, column == witness)


def _valued(bits: str, dtype: str) -> list[tuple[str, str]]:
    return [(word, content.decimal_of(word, dtype)) for word in bits.split()]
