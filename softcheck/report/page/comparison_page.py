"""The page of a comparison, and the section that a report's page has of a comparison with its baseline."""

from softcheck.report import compare_text
from softcheck.report.compare import Comparison
from softcheck.report.page import changes
from softcheck.report.page.document import Section, document

SECTION: Section[Comparison] = Section("changes", "Changes", "changes.html", changes.contents)
BASELINE: Section[Comparison] = Section("baseline", "Against the baseline", "changes.html", changes.beside_a_report)


def render(comparison: Comparison) -> str:
    """The comparison as a page."""
    return document(
        title="softcheck compare",
        lead=compare_text.closing(comparison),
        heading=(),
        sections=[SECTION.drawn(comparison)],
    )
