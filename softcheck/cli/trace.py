"""``softcheck trace``: how a variant's kernel computes a row, step by step, beside the exact values."""

import contextlib
import shlex
from typing import Annotated

import click

from softcheck.cases.case import GENERATED, Case
from softcheck.cases.corpus import default_corpora, load, select
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.importing import case_from_hex, case_from_numbers
from softcheck.cli import progress
from softcheck.cli.command import Word, command
from softcheck.cli.options import Names, Output, output_as
from softcheck.errors import UsageError
from softcheck.report.build import command_line
from softcheck.report.formats import TRACE_FORMATS
from softcheck.run.session import Session
from softcheck.run.tracing import trace


@command("trace")
def trace_command(
    *,
    names: Names,
    case: str | None = None,
    values: str | None = None,
    bits: str | None = None,
    dtype: Annotated[str | None, Word(known_dtype)] = None,
    corpus: tuple[str, ...] = (),
    row: tuple[int, ...] = (),
    width: Annotated[tuple[int, ...], click.IntRange(min=1)] = (),
    column: int | None = None,
    output: Annotated[Output, output_as(TRACE_FORMATS)],
) -> None:
    """Show step by step how a variant's Triton kernels compute a row, beside the exact value of each step.

    The kernels themselves run under Triton's interpreter, also where there is a GPU, and are recorded; nothing is enacted
    anew. Errors are in ULPs of the output's format. The exit code is 3 where the variant launches no Triton kernel.
    """
    if len(names) > 1:
        raise UsageError(f"{len(names)} variants are named; expected one, since a trace shows one")
    if sum(source is not None for source in (case, values, bits)) != 1:
        raise UsageError("say which row to trace by exactly one of --case, --values and --bits")
    if values is not None:
        traced = case_from_numbers(values, dtype or "float32", family=GENERATED)
    elif bits is not None:
        traced = case_from_hex(bits, dtype, family=GENERATED)
    else:
        traced = _saved(str(case), dtype, corpus)
    with contextlib.closing(Session("interpreter", jobs=1)) as session, progress.shown() as events:
        events.stage(f"tracing {names[0]}")
        found = trace(
            session, names[0], traced, rows=row or (0,), widths=width, focus=column, command=shlex.join(command_line())
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
