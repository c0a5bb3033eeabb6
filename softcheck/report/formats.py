"""The output formats by name. A renderer is imported when it is asked for, so that listing formats costs nothing."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from softcheck.errors import UsageError, near_matches
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.tracing.model import Trace

if TYPE_CHECKING:
    from softcheck.report.compare import Comparison

FORMATS: dict[str, str] = {
    "table": "softcheck.report.table:render",
    "summary": "softcheck.report.table:render_summary",
    "json": "softcheck.report.json_format:render",
    "markdown": "softcheck.report.markdown:render",
    "html": "softcheck.report.page.pages:report_page",
    "github": "softcheck.report.ci:github",
    "sarif": "softcheck.report.ci:sarif",
    "junit": "softcheck.report.ci:junit",
    "gitlab": "softcheck.report.ci:gitlab",
}
"""The formats of a report, and the functions that draw it."""

SPEED_FORMATS: dict[str, str] = {
    "table": "softcheck.report.speed_text:render_table",
    "json": "softcheck.report.json_format:render",
    "markdown": "softcheck.report.speed_text:render_markdown",
    "html": "softcheck.report.page.pages:speed_page",
}
"""The formats of what ``softcheck bench`` measured, and the functions that draw it."""


TRACE_FORMATS: dict[str, str] = {
    "table": "softcheck.report.trace_text:render",
    "json": "softcheck.report.json_format:render",
    "html": "softcheck.report.page.pages:trace_page",
}
"""The formats of what ``softcheck trace`` recorded, and the functions that draw it."""


WITH_BASELINE: Final = ("html",)
"""The formats that draw a comparison with a baseline beside the report."""


def render(report: Report, name: str, display: Display = PLAIN, baseline: "Comparison | None" = None) -> str:
    """Renders a report in the named format, ending in a newline. Raises UsageError for a name that is not one.

    A format that is not one of ``WITH_BASELINE`` leaves the comparison with a baseline out.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no output format {name!r}; {near_matches(name, list(FORMATS))}")
    renderer = _named(FORMATS[name])
    return str(renderer(report, display, baseline) if name in WITH_BASELINE else renderer(report, display))


def render_speed(report: SpeedReport, name: str) -> str:
    """Renders a benchmark in the named format, ending in a newline.

    Raises UsageError for a name that is not one of its formats.
    """
    if name not in SPEED_FORMATS:
        raise UsageError(f"a benchmark has no format {name!r}; it can be drawn as {', '.join(SPEED_FORMATS)}")
    return str(_named(SPEED_FORMATS[name])(report))


def render_trace(trace: Trace, name: str, display: Display = PLAIN) -> str:
    """Renders a trace in the named format, ending in a newline. Raises UsageError for a name that is not one of its formats."""
    if name not in TRACE_FORMATS:
        raise UsageError(f"a trace has no format {name!r}; it can be drawn as {', '.join(TRACE_FORMATS)}")
    return str(_named(TRACE_FORMATS[name])(trace, display))


def _named(place: str) -> Callable[..., object]:
    module, _, function = place.partition(":")
    renderer: Callable[..., object] = getattr(import_module(module), function)
    return renderer
