"""Workflow commands of GitHub Actions: an annotation for each cause of a failure, at the line of the variant's code.

A command is a line ``::error file=a.py,line=1,title=t::message``. In it ``%``, carriage return and line feed are written as
``%25``, ``%0D`` and ``%0A``, and in a property ``:`` and ``,`` as ``%3A`` and ``%2C`` too, as the runner's ``ActionCommand``
reads them. GitHub shows the first ten errors of a step, so what explains most comes first.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal

from softcheck.report import content
from softcheck.report.content import FindingGroup
from softcheck.report.model import Report, VariantResult
from softcheck.report.output import PLAIN, Display
from softcheck.variants.place import SourcePlace

_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPES_IN_PROPERTIES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def render(report: Report, _display: Display = PLAIN) -> str:
    """One error for each cause of each variant, whatever the dtypes, and for what could not be judged; then a notice.

    Declared defects and what a variant does not support are no errors.
    """
    # Those of most findings come first.
    shared = sorted(content.shared_groups(report), key=lambda groups: -sum(group.cases for group in groups))
    lines = [_of_cause(groups) for groups in shared]
    lines += [
        annotation(
            "error", [content.one_line(result.reason)], title=f"{content.subject(result)}: error", place=result.place
        )
        for result in report.variants
        if result.verdict == "error" and result.reason
    ]
    lines += [annotation("error", [content.one_line(error)], title="softcheck: not run") for error in report.errors]
    lines.append(annotation("notice", [content.summary(report)], title="softcheck"))
    return "\n".join(lines) + "\n"


def annotation(
    level: Literal["error", "warning", "notice"],
    message: Iterable[str],
    *,
    title: str,
    place: SourcePlace | None = None,
) -> str:
    """A workflow command with the lines of a message.

    A file outside of the repository is left out, since GitHub does not know it.
    """
    properties = {"title": title}
    if place is not None and not PurePosixPath(place.file).is_absolute():
        properties = {"file": place.file, "line": str(place.line), **properties}
    shown = ",".join(f"{name}={_escaped(text, _ESCAPES_IN_PROPERTIES)}" for name, text in properties.items())
    return f"::{level} {shown}::{_escaped(chr(10).join(message), _ESCAPES)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    # A lone surrogate stands for a byte of a file name that is no UTF-8.
    return "".join(escapes.get(each, each) for each in text.encode("utf-8", "backslashreplace").decode())


def _of_cause(groups: list[FindingGroup]) -> str:
    first = groups[0]
    result: VariantResult = first.result
    dtypes = ", ".join(dict.fromkeys(group.result.dtype for group in groups))
    said = [first.extent, content.one_line(first.first.message)]
    return annotation(
        "error",
        [*said, content.command(first.first.reproduce), *filter(None, [first.others])],
        title=f"{content.one_line(result.name)} ({dtypes}): {result.verdict}",
        place=result.place,
    )
