"""A trace for a terminal: a table of the steps of each row, then the row's figures and the step with the largest error."""

from collections.abc import Iterator
from io import StringIO

from rich import box
from rich.table import Table
from rich.text import Text

from softcheck.report import figures
from softcheck.report.content import one_line
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import console_of, print_line
from softcheck.tracing.model import PHASES, Trace, TracedFigure, TracedRow, TracedStep

_LEAST_ULPS = 2.0**-20
"""Smaller errors are printed as 0."""


def render(trace: Trace, display: Display = PLAIN) -> str:
    """Renders a trace as text for a terminal of the given width, or unwrapped."""
    drawn = StringIO()
    console = console_of(drawn, display)
    for line in heading(trace):
        print_line(console, line)
    for row in trace.rows:
        print_line(console)
        print_line(console, row_title(row), style="bold")
        console.print(_table(row))
        for line in (*left_out(row), *row_lines(row)):
            print_line(console, line)
    if trace.notes:
        print_line(console)
    for note in trace.notes:
        print_line(console, one_line(note))
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().splitlines())


def heading(trace: Trace) -> list[str]:
    """Lines that say what was recorded."""
    return [
        one_line(f"{trace.variant}, {trace.operation}, {trace.dtype}, on {trace.case}"),
        f"recorded under Triton {trace.triton}'s interpreter: its exponentials, quotients and order of sums are not a GPU's",
        "errors in ULPs of the output's format: so far, and of the step alone",
    ]


def row_title(row: TracedRow) -> str:
    """The row, its width, its block and its status."""
    return f"row {row.row}, {figures.plural(row.columns, 'column')}, blocks of {figures.plural(row.block, 'lane')}: {row.status}"


def left_out(row: TracedRow) -> Iterator[str]:
    """A line that says how many steps were cut, if any were."""
    if row.steps_left_out:
        yield f"{figures.plural(row.steps_left_out, 'step')} in the middle left out"


def row_lines(row: TracedRow) -> Iterator[str]:
    """The figures of a row, and the step with the largest error of its own."""
    for title, figure in row_figures(row):
        yield f"{title}: {'not computed' if figure.kernel is None else number(figure.kernel)}, exact {number(figure.exact)}"
    if row.born is None:
        yield "no step adds an error of its own"
        return
    step = row.steps[row.born]
    where = f"{step.kernel}:{step.line}" if step.line is not None else step.kernel
    yield f"largest error of its own: step {row.born + 1}, {PHASES[step.phase]}, {ulps(step.own)} ULP, at {where}: {one_line(step.source)}"


def row_figures(row: TracedRow) -> list[tuple[str, TracedFigure]]:
    """The figures of a row by their titles."""
    return [
        ("maximum", row.maximum),
        ("sum of exponentials", row.sum_of_exponentials),
        ("sum of probabilities", row.sum_of_probabilities),
        ("entropy in nats", row.entropy),
        ("least probability", row.least_probability),
        ("largest probability", row.largest_probability),
    ]


def number(value: float | None) -> str:
    """A value with nine digits, which tell any two float32 apart; a dash for none."""
    return figures.NOT_MEASURED if value is None else f"{value:.9g}"


def ulps(error: float | None) -> str:
    """An error in ULPs with four digits, a dash for none."""
    if error is None:
        return figures.NOT_MEASURED
    return "0" if error < _LEAST_ULPS else f"{error:.4g}"


def step_words(step: TracedStep) -> str:
    """A step in words, with what masked lanes load and with its note."""
    words = step.text
    if step.masked and step.phase == "load":
        value = "several values" if step.masked_value is None else f"{step.masked_value:g}"
        words += f"; {figures.plural(step.masked, 'masked lane')} {'loads' if step.masked == 1 else 'load'} {value}"
    return one_line(words + (f"; {step.note}" if step.note else ""))


def _table(row: TracedRow) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title, numeric in (
        ("", True),
        ("program", False),
        ("phase", False),
        ("step", False),
        ("column", True),
        ("value", True),
        ("exact", True),
        ("ULP\nso far", True),
        ("ULP\nalone", True),
        ("type", False),
        ("line", True),
    ):
        table.add_column(title, justify="right" if numeric else "left", no_wrap=title != "step", overflow="fold")
    for i, step in enumerate(row.steps):
        cells = (
            str(i + 1),
            ",".join(map(str, step.program)),
            PHASES[step.phase],
            step_words(step),
            figures.NOT_MEASURED if step.at is None else str(step.at),
            number(step.value),
            number(step.exact),
            ulps(step.error),
            ulps(step.own),
            step.dtype,
            figures.NOT_MEASURED if step.line is None else str(step.line),
        )
        table.add_row(*map(Text, cells), style="bold" if i == row.born else "")
    return table
