"""``softcheck trace``: how a variant's kernel computes a row, step by step, beside the exact values."""

import contextlib
import shlex

import click

from softcheck.cases.case import GENERATED, Case
from softcheck.cases.corpus import default_corpora, load, select
from softcheck.cases.importing import case_from_hex, case_from_numbers
from softcheck.cli import progress
from softcheck.cli.config import ConfiguredCommand, dtype_option
from softcheck.cli.options import Output, output_options, variant_options
from softcheck.errors import UsageError
from softcheck.report.build import command_line
from softcheck.report.formats import TRACE_FORMATS
from softcheck.run.session import Session
from softcheck.run.tracing import trace


@click.command("trace", cls=ConfiguredCommand)
@variant_options()
@click.option(
    "--case", "glob", metavar="GLOB", help="The case whose row is traced; several may match over dtypes alone."
)
@click.option(
    "--values", metavar="NUMBERS", help="Rows typed in: numbers parted by spaces or commas, rows by semicolons."
)
@click.option("--bits", metavar="HEX", help="Rows as bit patterns: elements parted by spaces, rows by semicolons.")
@click.option(
    "--dtype",
    callback=lambda c, o, v: None if v is None else dtype_option(c, o, v),
    help="The input's format; float32 if nothing else says it.",
)
@click.option(
    "--corpus", multiple=True, metavar="NAME|FOLDER", help="Corpora that hold the case; all built-in ones if left out."
)
@click.option(
    "--row",
    "rows",
    type=click.IntRange(min=0),
    multiple=True,
    help="A row to trace, as often as there are rows; 0 if left out.",
)
@click.option(
    "--width",
    "widths",
    type=click.IntRange(min=1),
    multiple=True,
    help="Cut the rows to so many columns; each width is another recording.",
)
@click.option("--column", "focus", type=click.IntRange(min=0), help="A column that each step shows.")
@output_options(TRACE_FORMATS)
def command(
    *,
    names: tuple[str, ...],
    glob: str | None,
    values: str | None,
    bits: str | None,
    dtype: str | None,
    corpus: tuple[str, ...],
    rows: tuple[int, ...],
    widths: tuple[int, ...],
    focus: int | None,
    output: Output,
) -> None:
    """Show step by step how a variant's Triton kernels compute a row, beside the exact value of each step.

    The kernels themselves run under Triton's interpreter, also where there is a GPU, and are recorded; nothing is enacted
    anew. Errors are in ULPs of the output's format. The exit code is 3 where the variant launches no Triton kernel.
    """
    if len(names) > 1:
        raise UsageError(f"{len(names)} variants are named; expected one, since a trace shows one")
    if sum(source is not None for source in (glob, values, bits)) != 1:
        raise UsageError("say which row to trace by exactly one of --case, --values and --bits")
    if values is not None:
        case = case_from_numbers(values, dtype or "float32", family=GENERATED)
    elif bits is not None:
        case = case_from_hex(bits, dtype, family=GENERATED)
    else:
        case = _saved(str(glob), dtype, corpus)
    with contextlib.closing(Session("interpreter", jobs=1)) as session, progress.shown() as events:
        events.stage(f"tracing {names[0]}")
        found = trace(
            session, names[0], case, rows=rows or (0,), widths=widths, focus=focus, command=shlex.join(command_line())
        )
    output.write(found)


def _saved(glob: str, dtype: str | None, corpus: tuple[str, ...]) -> Case:
    cases = select(load(corpus or default_corpora()), globs=[glob], dtypes=() if dtype is None else (dtype,))
    of_float32 = [case for case in cases if case.dtype == "float32"]
    if dtype is None and len(of_float32) == 1:
        return of_float32[0]
    if len(cases) > 1:
        shown = ", ".join(case.id for case in cases[:4])
        raise UsageError(f"--case {glob!r} matches {len(cases)} cases ({shown}, ...); name one, and its --dtype")
    return cases[0]
