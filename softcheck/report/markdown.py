"""The report for a pull request or an issue: GitHub-flavoured Markdown, findings folded away under the table."""

import re
from collections.abc import Callable, Iterable

from softcheck.report import content
from softcheck.report.content import Column
from softcheck.report.figures import TextTable
from softcheck.report.model import Report, VariantResult
from softcheck.report.output import PLAIN, Display
from softcheck.report.templates import drawn


def render(report: Report, _display: Display = PLAIN) -> str:
    """Markdown: summary, environment, one table per dtype, then collapsible details."""
    filters: dict[str, Callable[..., object]] = {"md": escape, "code": code, "fence": fence, "cell_of": _cell_of}
    filters |= {"one_line": content.one_line, "command": content.command}
    blocks = content.blocks(report, code, lambda line: escape(line.strip()))
    values = {"report": report, "content": content, "columns": content.columns(report), "blocks": blocks}
    return drawn("report.md", values, filters).rstrip("\n") + "\n"


def of_tables(
    command: str, closing: str, tables: Iterable[TextTable], remarks: Iterable[str], heading: Iterable[str] = ()
) -> str:
    """Returns what a command found, as Markdown: the closing line first, then its heading, tables and remarks."""
    values = {"command": command, "closing": closing, "tables": tables, "remarks": remarks, "heading": heading}
    return drawn("tables.md", values, {"md": escape}).rstrip("\n") + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is: no emphasis, table cell, tag, link, mention or reference comes of it."""
    text = re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def code(text: str) -> str:
    """A code span that holds the text, whatever backticks it has; in a table cell pipes need ``cell`` as well."""
    marks = fence(text, least=1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{marks}{pad}{text}{pad}{marks}"


def fence(text: str, least: int = 3) -> str:
    """More backticks than stand together anywhere in the text."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def cell(markdown: str) -> str:
    """Markdown that can stand in a table: GitHub takes a backslash before a pipe away, in code spans too."""
    return markdown.replace("|", "\\|")


def _cell_of(column: Column, result: VariantResult) -> str:
    if column.title == "variant":
        return cell(code(content.one_line(result.name)))
    is_bold = column.title == "verdict" and result.verdict in {"fail", "error"}
    return f"**{result.verdict}**" if is_bold else escape(column.cell(result))
