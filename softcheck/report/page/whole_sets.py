"""The sets of inputs that were judged whole."""

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
