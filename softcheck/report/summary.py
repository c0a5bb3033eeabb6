"""The report at a glance: the table of verdicts, and what failed with the command that shows it again."""

from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import draw


def render(report: Report, display: Display = PLAIN) -> str:
    """Heading, tables, legend, what failed and summary line as text for a terminal of the given width, or unwrapped."""
    return draw(report, display, details=False)
