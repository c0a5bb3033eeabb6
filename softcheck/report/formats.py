"""The output formats by name. A renderer is imported when it is asked for, so that listing formats costs nothing."""

from importlib import import_module
from typing import Final, TypeAlias

from softcheck.errors import UsageError, near_matches
from softcheck.report.compare import Comparison
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.tracing.model import Trace

Result: TypeAlias = Report | SpeedReport | Trace | Comparison

FORMATS: dict[str, str] = {
    "table": "softcheck.report.table:render",
    "summary": "softcheck.report.table:render_summary",
    "json": "softcheck.report.json_format:render",
    "markdown": "softcheck.report.markdown:render",
    "html": "softcheck.report.page.document:report_page",
    "github": "softcheck.report.ci:github",
    "sarif": "softcheck.report.ci:sarif",
    "junit": "softcheck.report.ci:junit",
    "gitlab": "softcheck.report.ci:gitlab",
}
"""The formats of a report, and the functions that draw it."""

SPEED_FORMATS: dict[str, str] = {
    "table": "softcheck.report.speed:render_table",
    "json": "softcheck.report.json_format:render",
    "markdown": "softcheck.report.speed:render_markdown",
    "html": "softcheck.report.page.document:speed_page",
}
"""The formats of what ``softcheck bench`` measured, and the functions that draw it."""


TRACE_FORMATS: dict[str, str] = {
    "table": "softcheck.report.trace_text:render",
    "json": "softcheck.report.json_format:render",
    "html": "softcheck.report.page.document:trace_page",
}
"""The formats of what ``softcheck trace`` recorded, and the functions that draw it."""

COMPARISON_FORMATS: dict[str, str] = {
    "table": "softcheck.report.compare:render_table",
    "markdown": "softcheck.report.compare:render_markdown",
    "json": "softcheck.report.json_format:render",
    "html": "softcheck.report.page.document:comparison_page",
    "github": "softcheck.report.compare:render_github",
}
"""The formats of a comparison, and the functions that draw it."""

_OF: dict[type[Result], tuple[str, dict[str, str]]] = {
    Report: ("a report", FORMATS),
    SpeedReport: ("a benchmark", SPEED_FORMATS),
    Trace: ("a trace", TRACE_FORMATS),
    Comparison: ("a comparison", COMPARISON_FORMATS),
}

WITH_BASELINE: Final = ("html",)
"""The formats that draw a comparison with a baseline beside the report."""


def formats_of(result: Result) -> dict[str, str]:
    """The formats of a result, and the functions that draw it."""
    return _OF[type(result)][1]


def render(result: Result, name: str, display: Display = PLAIN, baseline: Comparison | None = None) -> str:
    """Renders a result in the named format, ending in a newline; raises UsageError for a name that is not one of its formats."""
    what, formats = _OF[type(result)]
    if name not in formats:
        raise UsageError(f"{what} has no format {name!r}; {near_matches(name, list(formats))}")
    module, _, function = formats[name].partition(":")
    beside = (baseline,) if baseline is not None and name in WITH_BASELINE else ()
    return str(getattr(import_module(module), function)(result, display, *beside))
