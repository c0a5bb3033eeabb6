"""The pages of a report, a benchmark, a trace and a comparison: the list of the sections of each."""

from softcheck.report import compare_text, content, figures, speed_text, trace_text
from softcheck.report.compare import Comparison
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import charts, microscope, sections, speed_charts
from softcheck.report.page.document import Section, document
from softcheck.tracing.model import Trace

_REPORT = (
    Section("verdicts", "Verdicts", "verdicts.html", sections.verdicts),
    Section("figures", "Figures", "figures_table.html", sections.figures_table),
    Section("whole-sets", "Inputs judged whole", "lists.html", sections.whole_sets),
    Section("speed", "Accuracy against speed", "speed_accuracy.html", speed_charts.accuracy),
    Section("histograms", "How errors are spread", "histograms.html", charts.histograms),
    Section("curves", "Errors along a row", "error_curves.html", charts.error_curves),
    Section("findings", "Findings", "finding_pages.html", sections.findings),
    Section("row", "The row, step by step", "microscope.html", microscope.contents, "microscope.js"),
    Section("beside", "Worst elements, probes, arithmetic", "lists.html", sections.beside),
    Section("not-checked", "What was not checked", "lists.html", sections.not_checked),
    Section("environment", "Environment", "run_environment.html", sections.environment),
)
_SPEED = (
    Section("figures", "Figures", "speed_tables.html", sections.speed_tables),
    Section("accuracy", "Accuracy against speed", "speed_accuracy.html", speed_charts.accuracy),
    Section("remarks", "Remarks", "lists.html", sections.speed_remarks),
    Section("environment", "Environment", "run_environment.html", sections.environment),
)
_TRACE = Section("row", "The row, step by step", "microscope.html", microscope.contents, "microscope.js")
_CHANGES = Section("changes", "Changes", "changes.html", charts.changes)
_BASELINE = Section("baseline", "Against the baseline", "changes.html", charts.changes_since_the_baseline)


def report_page(report: Report, _display: Display = PLAIN, baseline: Comparison | None = None) -> str:
    """A report of ``report`` or ``exhaust`` as a page; with a comparison with its baseline, the changes stand first."""
    command = "exhaust" if {case.family for case in report.cases} == {"exhaustive"} else "report"
    changes = [] if baseline is None else [(_BASELINE, baseline)]
    return document(
        title=f"softcheck {command}",
        lead=content.summary(report),
        heading=content.heading(report),
        sections=[*changes, *((section, report) for section in _REPORT)],
    )


def speed_page(report: SpeedReport, _display: Display = PLAIN) -> str:
    """A benchmark as a page."""
    timed = {figure.variant for shape in report.shapes for figure in shape.variants}
    lead = f"{figures.plural(len(timed), 'variant')} on {figures.plural(len(report.shapes), 'shape')}"
    return document(
        title="softcheck bench",
        lead=f"{lead}, beside {report.reference}; {figures.duration(report.seconds)}",
        heading=speed_text.heading(report),
        sections=[(section, report) for section in _SPEED],
    )


def trace_page(trace: Trace, _display: Display = PLAIN) -> str:
    """A trace as a page: the rows, step by step, and the command that records them again."""
    first, *rest = trace_text.heading(trace)
    worst = list(trace_text.row_lines(trace.rows[0]))[-1]
    return document(
        title="softcheck trace",
        lead=content.one_line(f"{first}: {figures.plural(len(trace.rows), 'recording')}; {worst}"),
        heading=rest,
        sections=[(_TRACE, trace)],
    )


def comparison_page(comparison: Comparison, _display: Display = PLAIN) -> str:
    """A comparison as a page."""
    lead = compare_text.closing(comparison)
    return document(title="softcheck compare", lead=lead, heading=(), sections=[(_CHANGES, comparison)])
