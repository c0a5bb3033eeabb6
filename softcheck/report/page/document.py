"""The document that holds a page's sections, with its style and its script inside.

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
from softcheck.report import figures, trace_text
from softcheck.report.content import one_line
from softcheck.report.templates import drawn, templates
from softcheck.tracing.model import PHASES

_FOLDER = Path(__file__).parent

_STYLES = ("page.css", "microscope.css")
_SCRIPTS = ("page.js",)


class Section(NamedTuple):
    """One part of a page: its anchor, its title, the template that draws it, and the function that picks its contents.

    The function returns the template's values by name, none where there is nothing to show: the section is then left
    out. ``script`` names a file in this folder that the section needs beside the page's own script.
    """

    anchor: str
    title: str
    template: str
    contents: Callable[[Any], Mapping[str, object]]
    script: str | None = None


def document(*, title: str, lead: str, heading: Iterable[str], sections: Iterable[tuple[Section, object]]) -> str:
    """The whole page as HTML, ending in a newline.

    ``title`` names the page, ``lead`` says its outcome in one sentence, ``heading`` holds lines on the device and
    the software, and ``sections`` the sections with the results that they draw.
    """
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
