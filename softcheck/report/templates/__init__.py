"""Templates of reports that are no pages: Markdown, JUnit XML, and lines of Python that show a finding."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(("xml",), default_for_string=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["repr"] = repr
    return made


def drawn(name: str, values: Mapping[str, Any], filters: Mapping[str, Callable[..., object]] | None = None) -> str:
    """The text of a template. Only XML is escaped by itself; other templates escape by their own ``filters``."""
    templates = _templates()
    templates.filters |= filters or {}
    return templates.get_template(name).render(values)
