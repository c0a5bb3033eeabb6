"""The page of a report, whether ``report``, ``exhaust`` or ``search`` saved it: the list of its sections."""

from softcheck.report import content
from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import figures_table, verdicts
from softcheck.report.page.document import Section, document

SECTIONS: tuple[Section[Report], ...] = (
    Section("verdicts", "Verdicts", "verdicts.html", verdicts.contents),
    Section("figures", "Figures", "figures_table.html", figures_table.contents),
)
"""The sections in their order on the page."""


def render(report: Report, _display: Display = PLAIN) -> str:
    """The report as a page."""
    return document(
        title="softcheck report",
        lead=content.summary(report),
        heading=content.heading(report),
        sections=[section.drawn(report) for section in SECTIONS],
    )
