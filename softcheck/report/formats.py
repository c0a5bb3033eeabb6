"""The output formats by name. A renderer is imported when it is asked for, so that listing formats costs nothing."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from softcheck.errors import UsageError, near_matches
from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display

Renderer = Callable[[Report, Display], str]

FORMATS: dict[str, str] = {
    "table": "softcheck.report.table",
    "summary": "softcheck.report.summary",
    "json": "softcheck.report.json_format",
    "markdown": "softcheck.report.markdown",
}
"""Name of the format and the module whose ``render`` draws it."""


def renderer(name: str) -> Renderer:
    """The renderer of a format; raises UsageError for a name that is not one."""
    if name not in FORMATS:
        raise UsageError(f"there is no output format {name!r}; {near_matches(name, list(FORMATS))}")
    return cast("Renderer", import_module(FORMATS[name]).render)


def render(report: Report, name: str, display: Display = PLAIN) -> str:
    """A report in the named format, ending in a newline."""
    return renderer(name)(report, display)
