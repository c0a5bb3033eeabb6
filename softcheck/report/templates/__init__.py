"""Templates of reports: pages, Markdown, and those of CI systems."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


@cache
def templates() -> Environment:
    """The templates. HTML and XML escape all that they print but Markup, other ones by their own filters."""
    folder = Path(__file__).parent
    return Environment(
        loader=FileSystemLoader([folder, folder.parent / "page" / "templates"]),
        autoescape=select_autoescape(("html", "xml"), default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def drawn(name: str, values: Mapping[str, Any], filters: Mapping[str, Callable[..., object]] | None = None) -> str:
    """The text of a template, which may use the ``filters``."""
    templates().filters |= filters or {}
    return templates().get_template(name).render(values)
