"""The page of a benchmark: the list of its sections."""

from softcheck.report import figures, speed_text
from softcheck.report.model import SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import run_environment, speed_accuracy, speed_sweeps, speed_tables
from softcheck.report.page.document import Section, document

SECTIONS: tuple[Section[SpeedReport], ...] = (
    Section("figures", "Figures", "speed_tables.html", speed_tables.contents),
    Section("accuracy", "Accuracy against speed", "speed_accuracy.html", speed_accuracy.contents),
    Section("sweeps", "Along sizes", "speed_sweeps.html", speed_sweeps.contents),
    Section("remarks", "Remarks", "lists.html", speed_tables.remarks),
    Section("environment", "Environment", "run_environment.html", run_environment.contents),
)
"""The sections in their order on the page."""


def render(report: SpeedReport, _display: Display = PLAIN) -> str:
    """The benchmark as a page."""
    timed = {figure.variant for shape in report.shapes for figure in shape.variants}
    lead = f"{figures.plural(len(timed), 'variant')} on {figures.plural(len(report.shapes), 'shape')}"
    return document(
        title="softcheck bench",
        lead=f"{lead}, beside {report.reference}; {figures.duration(report.seconds)}",
        heading=speed_text.heading(report),
        sections=[section.drawn(report) for section in SECTIONS],
    )
