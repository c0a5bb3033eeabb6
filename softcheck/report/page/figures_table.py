"""The table of figures: a row for each variant and dtype, in the columns of the terminal's table."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from softcheck.report import content
from softcheck.report.content import Column, FindingGroup
from softcheck.report.model import Report, VariantResult
from softcheck.report.page.finding_pages import anchor_of
from softcheck.report.page.verdicts import row_anchors


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: the result, its cells by column, the anchor of its first finding, and the declared defects that show, by reason."""

    result: VariantResult
    anchor: str
    cells: tuple[str, ...]
    first_finding: str | None
    defects: tuple[tuple[str, tuple[FindingGroup, ...]], ...]


def contents(report: Report) -> Mapping[str, object] | None:
    """The columns and rows, the dtypes and verdicts that a reader may filter by, kinds of findings, and the legend."""
    if not report.variants:
        return None
    dtypes = list(content.by_dtype(report))
    variant, *others = content.columns(report)
    # The terminal has a table for each dtype, the page one for all.
    dtype = Column("dtype", lambda r: content.one_line(r.dtype), "both", numeric=False)
    columns = [variant, *([dtype] if len(dtypes) > 1 else []), *others]
    known = content.finding_groups(report, known=True)
    rows = [
        FigureRow(
            result,
            anchor,
            tuple(column.cell(result) for column in columns),
            _first_finding(result),
            _by_reason([group for group in known if group.result is result]),
        )
        for result, anchor in zip(report.variants, row_anchors(report), strict=True)
    ]
    return {
        "columns": [(column.title.replace("/ ", "/"), column.numeric) for column in columns],
        "rows": rows,
        "dtypes": dtypes,
        "verdicts": list(dict.fromkeys(result.verdict for result in report.variants)),
        "kinds": list(dict.fromkeys(str(f.kind) for result in report.variants for f in result.findings)),
        "legend": content.legend(report),
        "below": content.lines_below(report),
    }


def _first_finding(result: VariantResult) -> str | None:
    groups = content.groups_of(result, known=False) or content.groups_of(result, known=True)
    return anchor_of(groups[0].first) if groups else None


def _by_reason(groups: list[FindingGroup]) -> tuple[tuple[str, tuple[FindingGroup, ...]], ...]:
    ordered = sorted(groups, key=lambda group: group.first.known or "")
    return tuple(
        (content.one_line(reason or ""), tuple(of)) for reason, of in groupby(ordered, lambda group: group.first.known)
    )
