"""The sets of inputs that were judged whole, and the searches for the worst row."""

from collections.abc import Mapping

from softcheck.report import content, figures
from softcheck.report.model import Report

_SET_HEADING = [
    "variant",
    "dtype",
    "max ULP",
    "rows",
    "ordinary",
    "NaN",
    "fully masked",
    "no output",
    "rows/s",
    "judged in",
]


def contents(report: Report) -> Mapping[str, object] | None:
    """A row for each set, with the set in words; None where no set was judged whole."""
    sets = [
        (
            content.one_line(found.domain),
            [
                content.one_line(found.name),
                content.one_line(found.dtype),
                figures.max_ulp(found),
                *(f"{n:,}" for n in (found.rows, found.ordinary_rows, found.nan_rows, found.fully_masked_rows)),
                f"{found.unjudged_rows:,}",
                f"{found.rows_per_second:,.0f}",
                content.one_line(found.judged_in),
            ],
        )
        for found in report.exhaustive
    ]
    grouped = {domain: [row for other, row in sets if other == domain] for domain, _ in sets}
    return {"heading": _SET_HEADING, "sets": grouped} if sets else None


def searches(report: Report) -> Mapping[str, object] | None:
    """The lines of each search, as the terminal prints them, with the command that keeps the row; None without any."""
    if not report.searches:
        return None
    rows = [
        [
            content.one_line(found.name),
            content.one_line(found.dtype),
            f"{found.columns:,}",
            "error/bound" if found.objective == "bound" else "max ULP",
            figures.at_least(found.found),
            figures.at_least(found.random),
            figures.at_least(found.smaller),
            f"{found.elements:.3g}",
        ]
        for found in report.searches
    ]
    saves = [
        (f"{content.one_line(s.name)} {content.one_line(s.dtype)}, {s.columns} columns", s.save)
        for s in report.searches
        if s.save
    ]
    return {"heading": _SEARCH_HEADING, "rows": rows, "saves": [(name, content.command(text)) for name, text in saves]}


_SEARCH_HEADING = [
    "variant",
    "dtype",
    "columns",
    "figure",
    "by search",
    "by random rows",
    "simpler input",
    "elements each",
]
