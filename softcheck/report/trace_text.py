"""A trace for a terminal: a table of the steps of each row, then the row's figures and the step with the largest error."""

from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from softcheck.report import figures
from softcheck.report.content import one_line
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import UNBOUNDED_WIDTH, Screen, table_of
from softcheck.tracing.model import PHASES, Trace, TracedFigure, TracedRow, TracedStep

_LEAST_ULPS = 2.0**-20
"""Smaller errors are printed as 0."""


def render(trace: Trace, display: Display = PLAIN) -> str:
    """Renders a trace as text for a terminal of the given width, or unwrapped."""
    screen = Screen(display)
    for line in heading(trace):
        screen.line(line)
    for row in trace.rows:
        screen.line()
        screen.line(row_title(row), style="bold")
        for part in _fitting(screen.console, row):
            if isinstance(part, str):
                screen.line(part)
            else:
                screen.console.print(part)
        for line in (*left_out(row), *row_lines(row)):
            screen.line(line)
    if trace.notes:
        screen.line()
    for note in trace.notes:
        screen.line(one_line(note))
    return screen.text()


def heading(trace: Trace) -> list[str]:
    """Lines that say what was recorded."""
    return [
        one_line(f"{trace.variant}, {trace.operation}, {trace.dtype}, on {trace.case}"),
        f"recorded under Triton {one_line(trace.triton)}'s interpreter: its exponentials, quotients and order of sums are not a GPU's",
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
    named = f"step {row.born + 1}, {PHASES[step.phase]}"
    said = f"NaN is made in {named}" if step.makes_nan else f"largest error of its own: {named}, {ulps(step.own)} ULP"
    yield one_line(f"{said}, at {where}: {step.source}")


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


_COLUMNS: dict[str, tuple[Callable[[int, TracedStep], str], bool]] = {
    "": (lambda number_, _: str(number_), True),
    "program": (lambda _, step: ",".join(map(str, step.program)), False),
    "phase": (lambda _, step: PHASES[step.phase], False),
    "step": (lambda _, step: step_words(step), False),
    "column": (lambda _, step: figures.NOT_MEASURED if step.at is None else str(step.at), True),
    "value": (lambda _, step: number(step.value), True),
    "exact": (lambda _, step: number(step.exact), True),
    "ULP\nso far": (lambda _, step: ulps(step.error), True),
    "ULP\nalone": (lambda _, step: ulps(step.own), True),
    "type": (lambda _, step: one_line(step.dtype), False),
    "line": (lambda _, step: figures.NOT_MEASURED if step.line is None else str(step.line), True),
}
"""The columns of the table of steps: cells of a step and its number, from 1 on, and True if they are numbers."""
_LEAST_WORDS = 24
"""Width down to which the words of a step may wrap."""
_NARROW = ("", "phase", "value", "exact", "ULP\nso far", "ULP\nalone", "line")
"""Titles of the columns that a narrow terminal shows; the words then stand below."""


def _fitting(console: Console, row: TracedRow) -> Iterator[Table | str]:
    """The table of a row's steps, and below it the words of the steps where the table has no room for them."""
    whole = _table(row, _COLUMNS)
    if console.measure(whole, options=console.options.update(width=UNBOUNDED_WIDTH)).minimum <= console.width:
        yield whole
        return
    yield _table(row, _NARROW)
    for i, step in enumerate(row.steps):
        yield f"{i + 1}. {PHASES[step.phase]}: {step_words(step)}"


def _table(row: TracedRow, titles: Iterable[str]) -> Table:
    columns = {title: _COLUMNS[title] for title in titles}
    rows = [[Text(cell(i + 1, step)) for cell, _ in columns.values()] for i, step in enumerate(row.steps)]
    kinds = [(title, is_number) for title, (_, is_number) in columns.items()]
    return table_of(kinds, rows, {"step": _LEAST_WORDS}, bold=row.born)
