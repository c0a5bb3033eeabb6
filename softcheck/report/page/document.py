"""The pages of a report, a benchmark, a trace and a comparison: their sections in one document, with style and script inside.

A section is a function that picks its contents from a result, a template that draws these, and an entry
in its page's list. Every template escapes what it prints. A policy in the document's head lets the browser run only the
scripts, and use only the styles, whose digests it names, and lets it ask no host for anything.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from softcheck.explain import meaning_of
from softcheck.report import compare, content, figures, speed, trace_text
from softcheck.report.compare import Comparison
from softcheck.report.content import one_line
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import errors, sections
from softcheck.report.templates import drawn, templates
from softcheck.tracing.model import PHASES, Trace

_FOLDER = Path(__file__).parent

_STYLES = ("page.css", "microscope.css")
_SCRIPTS = ("page.js",)


class Section(NamedTuple):
    """One part of a page: anchor, title, template, the function that picks its contents, none where it is left out, and a script's file."""

    anchor: str
    title: str
    template: str
    contents: Callable[[Any], Mapping[str, object]]
    script: str | None = None


def document(*, title: str, lead: str, heading: Iterable[str], sections: Iterable[tuple[Section, object]]) -> str:
    """The whole page as HTML, ending in a newline; ``lead`` says its outcome, ``heading`` holds lines on device and software."""
    shown = [(section, values) for section, subject in sections if (values := section.contents(subject))]
    names = dict.fromkeys([*_SCRIPTS, *(section.script for section, _ in shown if section.script is not None)])
    # A digest is that of a file's bytes as they stand between the tags.
    styles, scripts = ([(_FOLDER / n).read_text(encoding="utf-8") for n in each] for each in (_STYLES, names))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {' '.join(map(_digest, styles))}",
            f"script-src {' '.join(map(_digest, scripts))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    shared = {"meaning_of": meaning_of, "PHASES": PHASES, "figures": figures, "traced": trace_text}
    templates().globals |= shared
    filters = {"one_line": one_line}
    values = {
        "title": title,
        "lead": lead,
        "heading": list(heading),
        # What a template has drawn is escaped, and styles and scripts are files of this package.
        "sections": [(s, Markup(drawn(s.template, {"anchor": s.anchor, **of}, filters))) for s, of in shown],  # noqa: S704
        "policy": policy,
        "styles": map(Markup, styles),
        "scripts": map(Markup, scripts),
    }
    return drawn("page.html", values).rstrip("\n") + "\n"


def _digest(text: str) -> str:
    """A source in a content security policy: ``'sha256-…'`` (https://www.w3.org/TR/CSP3/)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_REPORT = (
    Section("figures", "Verdicts", "figures_table.html", sections.figures_table),
    Section(
        "whole-sets", "Inputs judged whole", "lists.html", lambda of: sections.lists({"": content.exhaustive_lines(of)})
    ),
    Section("speed", "Speed", "speed_tables.html", sections.speed_tables),
    Section("histograms", "How errors are spread", "histograms.html", errors.histograms),
    Section("findings", "Findings", "finding_pages.html", sections.findings),
    Section("row", "The row, step by step", "microscope.html", sections.recordings, "microscope.js"),
    Section("beside", "Worst elements, probes, arithmetic", "lists.html", sections.beside),
    Section("not-checked", "What was not checked", "lists.html", sections.not_checked),
    Section("environment", "Environment", "run_environment.html", sections.environment),
)
_SPEED = (
    Section("figures", "Figures", "speed_tables.html", sections.speed_tables),
    Section("remarks", "Remarks", "lists.html", lambda of: sections.lists({"": speed.remarks(of)})),
    Section("environment", "Environment", "run_environment.html", sections.environment),
)
_TRACE = Section("row", "The row, step by step", "microscope.html", sections.recordings, "microscope.js")
_CHANGES = Section("changes", "Changes", "changes.html", sections.changes)
_BASELINE = Section("baseline", "Against the baseline", "changes.html", sections.changes)


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
        heading=speed.heading(report),
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
    lead = compare.closing(comparison)
    return document(title="softcheck compare", lead=lead, heading=(), sections=[(_CHANGES, comparison)])
