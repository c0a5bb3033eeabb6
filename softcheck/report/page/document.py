"""The document that holds a page's sections, with its style and its script inside.

A section is a module with a function that picks its contents from a result, a template that draws these, and an entry
in its page's list. Every template escapes what it prints. A policy in the document's head lets the browser run only the
scripts, and use only the styles, whose digests it names, and lets it ask no host for anything.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from jinja2 import Environment as Templates
from jinja2 import FileSystemLoader, StrictUndefined
from markupsafe import Markup

from softcheck.explain import meaning_of

Subject = TypeVar("Subject")

_FOLDER = Path(__file__).parent

_STYLES = ("page.css", "microscope.css")
_SCRIPTS = ("page.js",)


@dataclass(frozen=True, slots=True)
class Section(Generic[Subject]):
    """One part of a page: its anchor, its title, the template that draws it, and the function that picks its contents.

    The function returns the template's values by name, or None where there is nothing to show: the section is then left
    out. ``script`` names a file in this folder that the section needs beside the page's own script.
    """

    anchor: str
    title: str
    template: str
    contents: Callable[[Subject], Mapping[str, object] | None]
    script: str | None = None

    def drawn(self, subject: Subject) -> "Drawn | None":
        """The section of a result; None where it has nothing to show."""
        values = self.contents(subject)
        if values is None:
            return None
        body = templates().get_template(self.template).render(anchor=self.anchor, **values)
        return Drawn(self.anchor, self.title, Markup(body), self.script)  # noqa: S704 - a template's output is escaped


@dataclass(frozen=True, slots=True)
class Drawn:
    """A section as HTML."""

    anchor: str
    title: str
    body: Markup
    script: str | None


def document(*, title: str, lead: str, heading: Iterable[str], sections: Iterable[Drawn | None]) -> str:
    """The whole page as HTML, ending in a newline.

    ``title`` names the page, ``lead`` says its outcome in one sentence, and ``heading`` holds lines on the device and
    the software. Sections that are None are left out.
    """
    shown = [section for section in sections if section is not None]
    names = dict.fromkeys([*_SCRIPTS, *(section.script for section in shown if section.script is not None)])
    styles, scripts = [_inlined(name) for name in _STYLES], [_inlined(name) for name in names]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {' '.join(map(_digest, styles))}",
            f"script-src {' '.join(map(_digest, scripts))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    template = templates().get_template("page.html")
    page = template.render(
        title=title,
        lead=lead,
        heading=list(heading),
        sections=shown,
        policy=policy,
        styles=[Markup(text) for text in styles],  # noqa: S704 - files of this package
        scripts=[Markup(text) for text in scripts],  # noqa: S704 - files of this package
    )
    return page.rstrip("\n") + "\n"


@cache
def templates() -> Templates:
    """The templates of this package, which escape all that they print but Markup."""
    made = Templates(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["meaning_of"] = meaning_of
    return made


def _inlined(name: str) -> str:
    """A style or a script of this folder. Its digest is that of its bytes as they stand between the tags."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """A source in a content security policy: ``'sha256-…'`` (https://www.w3.org/TR/CSP3/)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
