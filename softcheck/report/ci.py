"""Formats of CI systems: annotations and the summary of a step of GitHub Actions, code quality of GitLab, JUnit XML and SARIF."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote

from softcheck.explain import of_kind
from softcheck.report import content
from softcheck.report.content import FindingGroup
from softcheck.report.model import Report, VariantResult
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import group_lines
from softcheck.report.templates import drawn
from softcheck.variants.place import SourcePlace

_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPES_IN_PROPERTIES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def github(report: Report, _display: Display = PLAIN) -> str:
    """Workflow commands of GitHub Actions: an error for each cause, what explains most first, since ten are shown, and a notice."""
    # Those of most findings come first.
    shared = sorted(content.shared_groups(report), key=lambda groups: -sum(group.cases for group in groups))
    lines = [_annotated(groups) for groups in shared]
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
    """A workflow command, escaped as the runner's ``ActionCommand`` reads it: ``::error file=a.py,line=1,title=t::message``."""
    properties = {"title": title}
    if (known := _in_the_repository(place)) is not None:
        properties = {"file": known.file, "line": str(known.line), **properties}
    shown = ",".join(f"{name}={_escaped(text, _ESCAPES_IN_PROPERTIES)}" for name, text in properties.items())
    return f"::{level} {shown}::{_escaped(chr(10).join(message), _ESCAPES)}"


def _in_the_repository(place: SourcePlace | None) -> SourcePlace | None:
    """The line of code, if its file is one of the repository: a CI system knows no other."""
    return None if place is None or PurePosixPath(place.file).is_absolute() else place


def _escaped(text: str, escapes: dict[str, str]) -> str:
    # A lone surrogate stands for a byte of a file name that is no UTF-8.
    return "".join(escapes.get(each, each) for each in text.encode("utf-8", "backslashreplace").decode())


def _annotated(groups: list[FindingGroup]) -> str:
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


def gitlab(report: Report, _display: Display = PLAIN) -> str:
    """Code quality of GitLab (https://docs.gitlab.com/ci/testing/code_quality/): an entry for each cause whose code lies in the repository."""
    found = [(group, known) for known in (False, True) for group in content.finding_groups(report, known=known)]
    places = [_in_the_repository(group.result.place) for group, _ in found]
    groups = [(*each, place) for each, place in zip(found, places, strict=True) if place is not None]
    return _json("gitlab.json", {"groups": groups, "content": content})


def _json(template: str, values: Mapping[str, object]) -> str:
    # SARIF takes [words](target) for a link (section 3.11.6), which a name or a message could hold.
    filters = {"one_line": content.one_line, "unlinked": lambda text: text.replace("](", "]\\(")}
    return json.dumps(json.loads(drawn(template, values, filters)), indent=2) + "\n"


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 (section 2.2) can't hold, escaped or not."""


def junit(report: Report, _display: Display = PLAIN) -> str:
    """JUnit XML, which GitLab, Jenkins and others read: a test case for each variant and dtype, which is there in every run."""
    groups = content.finding_groups(report, known=False)
    cases: list[tuple[VariantResult, str, list[FindingGroup]]] = []
    for result in report.variants:
        own = [group for group in groups if group.result is result]
        tag = "failure" if own else {"error": "error", "unsupported": "skipped"}.get(result.verdict, "")
        cases.append((result, tag, own))
    tags = [*(tag for _, tag, _ in cases), *("error" for _ in report.errors)]
    values = {"report": report, "cases": cases, "tags": tags, "content": content, "group_lines": group_lines}
    # What XML can't hold stands there with the escapes of Python.
    return _NOT_IN_XML.sub(lambda c: c[0].encode("unicode_escape").decode(), drawn("junit.xml", values))


def sarif(report: Report, _display: Display = PLAIN) -> str:
    """SARIF 2.1.0, which code scanning reads: a log with one run, a rule for each kind of finding, a result for each finding.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/ defines the format. Findings that a declared defect explains are suppressed, with
    the declared reason. A finding's id, which is the same in every run, is its fingerprint; ``primaryLocationLineHash`` is the only one
    that GitHub compares. A variant that could not be judged is a notification of the tool, and the run no success.
    """
    found = [(result, finding) for result in report.variants for finding in result.findings]
    unjudged = [f"{content.subject(row)}: {row.reason}" for row in report.variants if row.verdict == "error"]
    values = {
        "report": report,
        "content": content,
        "found": found,
        "kinds": list(dict.fromkeys(finding.kind for _, finding in found)),
        "errors": [*unjudged, *report.errors],
        "of_kind": of_kind,
        "artifact": _artifact,
    }
    return _json("sarif.json", values)


def _artifact(result: VariantResult) -> dict[str, str]:
    """The file of the variant's code. Code scanning takes no result without a file, so the name stands in for an unknown one."""
    if result.place is None:
        return {"uri": quote(content.one_line(result.name))}
    path = PurePosixPath(content.one_line(result.place.file, 4096))
    return {"uri": path.as_uri()} if path.is_absolute() else {"uri": quote(str(path)), "uriBaseId": "SRCROOT"}


VARIABLE = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file of the step's summary."""

LIMIT = 1024 * 1024
"""Bytes of one step's summary; GitHub shows none of a longer one."""


def add_step_summary(markdown: Callable[[], str]) -> None:
    """Appends the Markdown to the summary of a step of GitHub Actions, cut to what has room; a file that can't be written is left alone."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    whole = markdown()
    table = whole.partition("<details>")[0]
    cut = f"A step's summary holds at most {LIMIT // 1024} KiB; the report has the rest.\n"
    with suppress(OSError, ValueError):
        file = Path(path)
        room = LIMIT - (file.stat().st_size if file.exists() else 0)
        for text in (whole, f"{table}{cut}", "\n".join([*whole.splitlines()[:3], "", cut])):
            data = f"{text}\n".encode("utf-8", "backslashreplace")
            if len(data) <= room:
                with file.open("ab") as summary:
                    summary.write(data)
                return
