"""The report at a glance: the table of verdicts without witnesses, findings and notes."""

from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import draw


def render(report: Report, display: Display = PLAIN) -> str:
    """Heading, tables and summary line as text for a terminal of the given width, or unwrapped."""
    return draw(report, display, details=False)
