"""The report for a terminal: a table of verdicts, then what to look at and how to see it again."""

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import groupby

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from softcheck.report import content
from softcheck.report.content import FindingGroup
from softcheck.report.model import Report, Verdict
from softcheck.report.output import PLAIN, Display

UNBOUNDED_WIDTH = 2000
"""Width where nothing may wrap: wider than any row of the table."""

LEAST_WIDTH = 80
"""A narrower terminal wraps the lines itself: a broken line can be read, a column squeezed to nothing can't."""

_FOLDED = {"variant": 10, "findings": 24}
"""Least widths of the columns that may wrap: no kind of finding, with the sign that follows it, is longer than its column."""

STYLES: dict[Verdict, str] = {
    "pass": "green",
    "fail": "bold red",
    "known": "yellow",
    "unsupported": "dim",
    "error": "bold magenta",
}


class Screen:
    """Text for a display, whose terminal wraps the lines that are no table, so that commands can be copied."""

    def __init__(self, display: Display) -> None:
        self._drawn = StringIO()
        self.console = Console(
            file=self._drawn,
            width=UNBOUNDED_WIDTH if display.width is None else max(display.width, LEAST_WIDTH),
            color_system="standard" if display.color else None,
            force_terminal=display.color,
            no_color=not display.color,
            legacy_windows=False,
            # The display has been decided; the environment must not decide again.
            _environ={},
        )

    def line(self, text: str = "", style: str = "") -> None:
        """Prints one line, which is never taken for markup."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def text(self) -> str:
        """The printed text, without blanks at the ends of lines."""
        return "".join(line.rstrip() + "\n" for line in self._drawn.getvalue().splitlines())


def render_summary(report: Report, display: Display = PLAIN) -> str:
    """Renders the report at a glance: the table, and what failed with the command that shows it again."""
    return render(report, display, details=False)


def render(report: Report, display: Display = PLAIN, *, details: bool = True) -> str:
    """Renders the report as text for a terminal of the given width, or unwrapped; without ``details`` only what failed is told below the tables."""
    screen = Screen(display)
    for line in content.heading(report):
        screen.line(line)
    _print_tables(screen, report)
    if legend := content.legend(report):
        screen.line()
        screen.console.print(Text("; ".join(f"{word}: {meaning}" for word, meaning in legend), style="dim"))
    for line in content.lines_below(report):
        screen.line(line, style="dim")
    for title, lines in _blocks(report, details=details):
        screen.line()
        screen.line(title, style="bold")
        for line in lines:
            screen.line(f"  {line}")
    screen.line()
    screen.line(content.summary(report), style="bold")
    return screen.text()


def render_tables(report: Report, display: Display = PLAIN) -> str:
    """Renders the tables of verdicts alone, and the closing line."""
    screen = Screen(display)
    _print_tables(screen, report)
    screen.line()
    screen.line(content.summary(report), style="bold")
    return screen.text()


def _print_tables(screen: Screen, report: Report) -> None:
    columns = content.columns(report)
    for dtype, results in content.by_dtype(report).items():
        screen.line()
        screen.line(content.one_line(dtype), style="bold")
        rows = [
            [Text(c.cell(result), style=STYLES[result.verdict] if c.title == "verdict" else "") for c in columns]
            for result in results
        ]
        titles = [(column.title.replace(" ", "\n"), column.numeric) for column in columns]
        screen.console.print(table_of(titles, rows, _FOLDED))


def table_of(
    titles: Sequence[tuple[str, bool]],
    rows: Sequence[Sequence[Text]],
    folded: Mapping[str, int],
    bold: int | None = None,
) -> Table:
    """A table with a bold row; ``titles`` tell the columns and whether they hold numbers, ``folded`` the least widths of those that may wrap."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for i, (title, is_number) in enumerate(titles):
        widest = max(map(cell_len, [*title.split("\n"), *(row[i].plain for row in rows)]))
        table.add_column(
            title,
            justify="right" if is_number else "left",
            no_wrap=title not in folded,
            min_width=min(widest, folded.get(title, UNBOUNDED_WIDTH)) or None,
            overflow="fold",
        )
    for i, row in enumerate(rows):
        table.add_row(*row, style="bold" if i == bold else "")
    return table


def _blocks(report: Report, *, details: bool) -> Iterator[tuple[str, list[str]]]:
    """Yields titles and lines of the blocks below the table; without ``details`` only those that explain why a row did not pass."""
    blocks = {
        "findings": _finding_lines(report),
        "declared defects": _defect_lines(report),
        **content.blocks(report),
    }
    yield from ((title, lines) for title, lines in blocks.items() if lines and (details or title in _NOT_PASSED))


_NOT_PASSED = ("findings", "unsupported or in error", "cases that could not be run")


def _finding_lines(report: Report) -> list[str]:
    """The groups by variant and the dtypes that show them; each stands once, as the first of these dtypes shows it."""
    shared: dict[str, dict[tuple[str, ...], list[FindingGroup]]] = {}
    for groups in content.shared_groups(report):
        dtypes = tuple(dict.fromkeys(group.result.dtype for group in groups))
        shared.setdefault(groups[0].result.name, {}).setdefault(dtypes, []).append(groups[0])
    lines = []
    for name, of_dtypes in shared.items():
        for dtypes, firsts in of_dtypes.items():
            shown = f"; shown in {dtypes[0]}" if dtypes[1:] else ""
            lines.append(f"{content.one_line(name)} {content.one_line(', '.join(dtypes))}{shown}")
            lines += [f"  {text}" for group in firsts for text in group_lines(group)]
    return lines


def group_lines(group: FindingGroup) -> list[str]:
    """The fault, its usual fix, one finding that shows it, and the command that shows it again."""
    mend = [f"  fix: {group.mend}"] if group.mend else []
    message = content.one_line(group.first.message, 500)
    lines = [
        *([f"{group.extent}: {message}"] if group.cause is None else [group.fault, *mend, f"  {message}"]),
        f"  at {content.place(group.first)}, finding {content.one_line(group.first.id)}",
        f"  $ {content.command(group.first.reproduce)}",
    ]
    lines += [f"  {line}" for line in content.save_lines(group.first)]
    return [*lines, f"  {group.others}"] if group.others else lines


def _defect_lines(report: Report) -> list[str]:
    lines = []
    groups = content.finding_groups(report, known=True)
    for (name, reason), explained in groupby(groups, lambda g: (content.subject(g.result), g.first.known)):
        lines.append(f"{name}: {content.one_line(reason or '')}")
        for group in explained:
            lines += [f"  {group.extent}", f"    $ {content.command(group.first.reproduce)}"]
    return lines
