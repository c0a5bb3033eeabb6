"""The page of a report, whether ``report`` or ``exhaust`` saved it: the list of its sections."""

from softcheck.report import content
from softcheck.report.compare import Comparison
from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import (
    beside,
    comparison_page,
    error_curves,
    figures_table,
    finding_pages,
    histograms,
    microscope,
    not_checked,
    run_environment,
    shape_maps,
    speed_accuracy,
    verdicts,
    whole_sets,
)
from softcheck.report.page.document import Section, document

SECTIONS: tuple[Section[Report], ...] = (
    Section("verdicts", "Verdicts", "verdicts.html", verdicts.contents),
    Section("figures", "Figures", "figures_table.html", figures_table.contents),
    Section("whole-sets", "Inputs judged whole", "whole_sets.html", whole_sets.contents),
    Section("speed", "Accuracy against speed", "speed_accuracy.html", speed_accuracy.contents),
    Section("histograms", "How errors are spread", "histograms.html", histograms.contents),
    Section("curves", "Errors along a row", "error_curves.html", error_curves.contents),
    Section("shapes", "Shapes", "shape_maps.html", shape_maps.contents),
    Section("findings", "Findings", "finding_pages.html", finding_pages.contents),
    Section("row", "The row, step by step", "microscope.html", microscope.contents, "microscope.js"),
    Section("beside", "Worst elements, probes, arithmetic", "lists.html", beside.contents),
    Section("not-checked", "What was not checked", "lists.html", not_checked.contents),
    Section("environment", "Environment", "run_environment.html", run_environment.contents),
)
"""The sections in their order on the page."""


def render(report: Report, _display: Display = PLAIN, baseline: Comparison | None = None) -> str:
    """The report as a page; with a comparison with its baseline, the changes stand first."""
    changed = comparison_page.BASELINE.drawn(baseline) if baseline is not None else None
    return document(
        title=f"softcheck {_command(report)}",
        lead=content.summary(report),
        heading=content.heading(report),
        sections=[changed, *(section.drawn(report) for section in SECTIONS)],
    )


def _command(report: Report) -> str:
    """The command whose result it is, as far as the result shows."""
    return "exhaust" if {case.family for case in report.cases} == {"exhaustive"} else "report"
