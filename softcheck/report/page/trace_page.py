"""The page of a trace: the row, step by step, and the command that records it again."""

from collections.abc import Mapping

from softcheck.report import figures
from softcheck.report.content import one_line
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import microscope
from softcheck.report.page.document import Section, document
from softcheck.report.trace_text import heading, row_lines
from softcheck.tracing.model import Trace


def _contents(trace: Trace) -> Mapping[str, object] | None:
    return microscope.of_traces([trace])


SECTIONS: tuple[Section[Trace], ...] = (
    Section("row", "The row, step by step", "microscope.html", _contents, "microscope.js"),
)
"""The sections in their order on the page."""


def render(trace: Trace, _display: Display = PLAIN) -> str:
    """The trace as a page."""
    first, *rest = heading(trace)
    worst = list(row_lines(trace.rows[0]))[-1]
    return document(
        title="softcheck trace",
        lead=one_line(f"{first}: {figures.plural(len(trace.rows), 'recording')}; {worst}"),
        heading=rest,
        sections=[section.drawn(trace) for section in SECTIONS],
    )
