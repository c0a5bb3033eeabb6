"""The report for a pull request or an issue: GitHub-flavoured Markdown, findings folded away under the table."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from softcheck.report import content
from softcheck.report.content import FindingGroup
from softcheck.report.model import Report, VariantResult
from softcheck.report.output import PLAIN, Display


def render(report: Report, _display: Display = PLAIN) -> str:
    """Markdown: summary, environment, one table per dtype, then collapsible details."""
    first, *rest = content.heading(report)
    lines = ["## softcheck", "", f"**{escape(content.summary(report))}**", "", f"{escape(first)}  "]
    lines += ["  \n".join(escape(line) for line in rest), ""]
    for dtype, results in content.by_dtype(report).items():
        lines += [f"### {escape(dtype)}", "", *_table(report, results), ""]
    for line in content.lines_below(report):
        lines += [escape(line), ""]
    for title, body in _blocks(report):
        lines += [
            f"<details><summary>{escape(title)}</summary>",
            "",
            *body[: -1 if not body[-1] else None],
            "",
            "</details>",
            "",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is: no emphasis, table cell, tag, link, mention or reference comes of it."""
    text = re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def code(text: str) -> str:
    """A code span that holds the text, whatever backticks it has; in a table cell pipes need ``cell`` as well."""
    fence = _fence(text, least=1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(text: str, least: int = 3) -> str:
    """More backticks than stand together anywhere in the text."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def cell(markdown: str) -> str:
    """Markdown that can stand in a table: GitHub takes a backslash before a pipe away, in code spans too."""
    return markdown.replace("|", "\\|")


def _table(report: Report, results: list[VariantResult]) -> Iterator[str]:
    columns = content.columns(report)
    yield table_row([escape(c.title.replace("/ ", "/")) for c in columns])
    yield table_row(["---:" if c.numeric else "---" for c in columns])
    for result in results:
        texts = {"variant": cell(code(content.one_line(result.name))), "verdict": _verdict(result)}
        yield table_row([texts.get(c.title, escape(c.cell(result))) for c in columns])


def table_row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def _verdict(result: VariantResult) -> str:
    return f"**{result.verdict}**" if result.verdict in {"fail", "error"} else result.verdict


def _blocks(report: Report) -> Iterator[tuple[str, list[str]]]:
    """Titles and lines of the collapsible parts; a part without lines is left out."""
    told = {"findings": _finding_lines(report), "declared defects": _defect_lines(report)}
    for title, found in content.blocks(report, code, lambda line: escape(line.strip())).items():
        told[title] = [f"- {line}" for line in found]
    yield from ((title.capitalize(), lines) for title, lines in told.items() if lines)


def _subject(result: VariantResult) -> str:
    return code(content.subject(result))


def _finding_lines(report: Report) -> list[str]:
    lines = []
    for group in content.finding_groups(report, known=False):
        lines.append(
            f"- {_subject(group.result)}, {escape(group.fault)}: {code(content.one_line(group.first.message))}"
        )
        lines += [f"  Fix: {escape(group.mend)}"] if group.mend else []
        lines += _example(group)
    return lines


def _defect_lines(report: Report) -> list[str]:
    lines = []
    groups = content.finding_groups(report, known=True)
    for (subject, reason), explained in groupby(groups, lambda g: (_subject(g.result), g.first.known)):
        for group in explained:
            lines.append(f"- {subject}, {escape(group.extent)}: {escape(content.one_line(reason or ''))}")
            lines += _example(group)
    return lines


def _example(group: FindingGroup) -> list[str]:
    """The place of the first finding, and the command that shows it again, as parts of a list item."""
    others = f" ({escape(group.others)})" if group.others else ""
    text = content.command(group.first.reproduce)
    fence = _fence(text)
    return [
        f"  at {code(content.place(group.first))}, finding {code(content.one_line(group.first.id))}{others}",
        "",
        f"  {fence}console",
        f"  $ {text}",
        *(f"  {line}" for line in content.save_lines(group.first)),
        f"  {fence}",
        "",
    ]
