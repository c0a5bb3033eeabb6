"""The page of a comparison, and its only section, which a report's page holds too where there is a baseline."""

from softcheck.report import compare_text
from softcheck.report.compare import Comparison
from softcheck.report.page import changes
from softcheck.report.page.document import Section, document

SECTION: Section[Comparison] = Section("changes", "Changes", "changes.html", changes.contents)


def render(comparison: Comparison) -> str:
    """The comparison as a page."""
    return document(
        title="softcheck compare",
        lead=compare_text.closing(comparison),
        heading=(),
        sections=[SECTION.drawn(comparison)],
    )
