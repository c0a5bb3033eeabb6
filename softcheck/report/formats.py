"""The output formats by name. A renderer is imported when it is asked for, so that listing formats costs nothing."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from softcheck.errors import UsageError, near_matches
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import PLAIN, Display

Renderer = Callable[[Report, Display], str]

FORMATS: dict[str, str] = {
    "table": "softcheck.report.table",
    "summary": "softcheck.report.summary",
    "json": "softcheck.report.json_format",
    "markdown": "softcheck.report.markdown",
}
"""Name of the format and the module whose ``render`` draws it."""

SPEED_FORMATS: dict[str, str] = {
    "table": "softcheck.report.speed_text:render_table",
    "json": "softcheck.report.json_format:render",
    "csv": "softcheck.report.speed_text:render_csv",
    "markdown": "softcheck.report.speed_text:render_markdown",
}
"""The formats of what ``softcheck bench`` measured, and the functions that draw it."""


def renderer(name: str) -> Renderer:
    """The renderer of a format; raises UsageError for a name that is not one."""
    if name not in FORMATS:
        raise UsageError(f"there is no output format {name!r}; {near_matches(name, list(FORMATS))}")
    return cast("Renderer", import_module(FORMATS[name]).render)


def render(report: Report, name: str, display: Display = PLAIN) -> str:
    """A report in the named format, ending in a newline."""
    return renderer(name)(report, display)


def render_speed(report: SpeedReport, name: str) -> str:
    """Renders a benchmark in the named format, ending in a newline.

    Raises UsageError for a name that is not one of its formats.
    """
    if name not in SPEED_FORMATS:
        raise UsageError(f"a benchmark has no format {name!r}; it can be drawn as {', '.join(SPEED_FORMATS)}")
    module, _, function = SPEED_FORMATS[name].partition(":")
    return cast("Callable[[SpeedReport], str]", getattr(import_module(module), function))(report)
