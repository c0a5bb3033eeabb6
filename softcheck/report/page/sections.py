"""The contents of a page's sections that hold words and tables: each function returns what its template draws."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, zip_longest

import msgspec

from oracles.formats import FORMATS
from softcheck.contract import Surroundings
from softcheck.explain import of_kind
from softcheck.probes.registry import PROBES
from softcheck.report import compare, content, figures, speed
from softcheck.report.compare import Comparison, by_word, shapes_of
from softcheck.report.content import Column, FindingGroup, one_line
from softcheck.report.model import Finding, Report, SpeedReport, VariantResult
from softcheck.report.trace_text import left_out, number, row_lines, ulps
from softcheck.tracing.model import Trace, TracedRow

Contents = Mapping[str, object]

_FEW = 3
"""Shapes up to which each has a table of its own."""

ELEMENT_COLUMNS = ("column", "input bits", "input", "output bits", "output", "exact", "ULP", "bound")


def sentence(result: VariantResult) -> str:
    """The reason of a verdict: the first cause, the defect's reason, or the extent to which the contract was kept."""
    if result.reason:
        return one_line(result.reason)
    outcome = _outcome(result)
    return one_line("; ".join((outcome, *content.reservations(result)))) if result.was_run else outcome


def _outcome(result: VariantResult) -> str:
    """Grounds of a verdict: the first of its causes, kinds of findings or defects, and the number of the others."""
    kinds = dict.fromkeys(f.kind for f in result.findings if f.known is None)
    reasons = dict.fromkeys(f.known for f in result.findings if f.known is not None)
    for said, noun in (
        ([cause.text for cause in result.causes], "cause"),
        ([of_kind(kind).meaning for kind in kinds], "kind"),
        (list(reasons), "defect"),
    ):
        if said:
            more = len(said) - 1
            return one_line(said[0]) + (f"; and {figures.plural(more, f'more {noun}')}" if more else "")
    return "no broken promise" if result.was_run else "nothing was run"


def figures_table(report: Report) -> Contents:
    """The columns and rows of the terminal's tables as one, what a reader may filter by, kinds of findings, and the legend."""
    dtypes = list(content.by_dtype(report))
    variant, *others = content.columns(report)
    dtype = Column("dtype", lambda r: one_line(r.dtype), numeric=False)
    columns = [variant, *([dtype] if len(dtypes) > 1 else []), *others]
    rows = [
        {
            "result": result,
            "cells": [column.cell(result) for column in columns],
            "sentence": sentence(result),
            "first_finding": next((f"finding-{group.first.id}" for each in groups for group in each), None),
            "defects": _by_reason(groups[1]),
        }
        for result in report.variants
        for groups in [[content.groups_of(result, known=known) for known in (False, True)]]
    ]
    if not rows:
        return {}
    return {
        "columns": [(column.title.replace("/ ", "/"), column.numeric) for column in columns],
        "rows": rows,
        "dtypes": dtypes,
        "verdicts": list(dict.fromkeys(result.verdict for result in report.variants)),
        "kinds": list(dict.fromkeys(str(f.kind) for result in report.variants for f in result.findings)),
        "legend": content.legend(report),
        "below": content.lines_below(report),
    }


def _by_reason(groups: list[FindingGroup]) -> list[tuple[str, list[FindingGroup]]]:
    ordered = sorted(groups, key=lambda group: group.first.known or "")
    return [(one_line(reason or ""), list(of)) for reason, of in groupby(ordered, lambda group: group.first.known)]


def findings(report: Report) -> Contents:
    """Of each cause or kind the first finding whole, and the others as lines that a link can reach; undeclared ones first."""
    pages, seen = [], set[str]()
    for known in (False, True):
        for group in content.finding_groups(report, known=known):
            own = {f.id: f for f in group.findings if f.id not in seen}
            seen.update(own)
            first = group.first
            if own.pop(first.id, None) is not None:
                pages.append(_page(group, first, list(own.values())))
    return {"pages": pages, "columns": ELEMENT_COLUMNS} if pages else {}


def _page(group: FindingGroup, finding: Finding, others: list[Finding]) -> Contents:
    """One finding with everything that is known of it, and the others of its group."""
    dtype, around = group.result.dtype, finding.around
    # A command that holds a wide row would bury the rest; it is in the JSON.
    save = next((f.save for f in (finding, *others) if f.save and len(f.save) <= content.LONGEST_COMMAND), None)
    said = [
        ("show it again", finding.reproduce),
        *([("keep the smallest input as a regression", save)] if save else []),
    ]
    return {
        "finding": finding,
        "title": f"{content.subject(group.result)}: {group.extent}",
        "elements": list(_elements(around, finding.column, dtype)) if around is not None else [],
        "row": [(word, content.decimal_of(word, dtype)) for word in ((around and around.row) or "").split()],
        "commands": [(label, content.command(text)) for label, text in said],
        "others": [(f"finding-{f.id}", content.place(f), one_line(f.message)) for f in others],
    }


def _elements(around: Surroundings, witness: int | None, dtype: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The cells of each element around a witness under ``ELEMENT_COLUMNS``, and True for the witness itself."""
    parts = (around.inputs, around.outputs, around.exact, around.ulps, around.bounds)
    for at, (given, got, exact, *errors) in enumerate(zip_longest(*(part.split() for part in parts), fillvalue="")):
        column = around.first_column + at
        values = (given, content.decimal_of(given, dtype), got, content.decimal_of(got, dtype), exact)
        limits = (figures.NOT_MEASURED if figure == "-" else figure for figure in errors)
        yield (str(column), *values, *limits), column == witness


def lists(parts: Mapping[str, list[str]], *, folded: bool = False) -> Contents:
    """Lines by title, without titles that have none."""
    shown = [(title, lines) for title, lines in parts.items() if lines]
    return {"parts": shown, "folded": folded} if shown else {}


def beside(report: Report) -> Contents:
    """Facts on the variants beside their figures, as the terminal prints them."""
    blocks = content.blocks(report)
    shown = {title: blocks[title] for title in ("worst elements", "probes", "arithmetic")}
    coverage = {row.name: (*row.coverage.never, *row.coverage.one_sided) for row in report.variants if row.coverage}
    shown["lines never run"] = [one_line(f"{name}: {'; '.join(places)}") for name, places in coverage.items() if places]
    return lists(shown, folded=True)


def not_checked(report: Report) -> Contents:
    """The limits of a report: probes, dtypes, cases and sizes that were not run, and the reason for each."""
    ran = {name for result in report.variants for name, trials in result.probes_run.items() if trials}
    judged = {result.dtype for result in report.variants}
    dtypes = ", ".join(dtype for dtype in FORMATS if dtype not in judged)
    probes = ", ".join(name for name in PROBES if name not in ran)
    blocks = content.blocks(report)
    said = {
        "the run was ended early; the figures are of what had been measured by then": report.interrupted,
        "the kernels ran under Triton's interpreter: the GPU's arithmetic and speed were not judged": report.environment.backend
        == "interpreter",
        "maxima with the sign ≥ are those of the inputs that were run; other inputs may show larger ones": any(
            result.ulp_is == "at least" and result.max_ulp is not None for result in report.variants
        ),
        "no speed was measured": not report.timings and not report.speed,
    }
    return lists(
        {
            "in general": [sentence for sentence, holds in said.items() if holds],
            "dtypes": [dtypes] if dtypes else [],
            "probes without a trial": [probes] if probes else [],
            "unsupported or in error": blocks["unsupported or in error"],
            "cases that could not be run": blocks["cases that could not be run"],
            "notes of the run": blocks["notes"],
        }
    )


def environment(result: Report | SpeedReport) -> Contents:
    """The fields of the environment by name, and the stages of a report with their times."""
    said = msgspec.structs.asdict(result.environment)
    command = content.command(said.pop("command"))
    fields = [(name.replace("_", " "), one_line(str(value))) for name, value in said.items() if value is not None]
    stages = result.stages if isinstance(result, Report) else ()
    return {
        "fields": [*fields, ("time in all", figures.duration(result.seconds))],
        "command": command,
        "stages": [[one_line(stage.name), figures.duration(stage.seconds)] for stage in stages],
    }


def speed_tables(result: Report | SpeedReport) -> Contents:
    """The tables of what was timed as the terminal has them, geometric means first; those of many shapes are joined to one."""
    shapes = shapes_of(result)
    if not shapes:
        return {}
    tables = [replace(t, heading=[title or "verdict" for title in t.heading]) for t in speed.tables(shapes)]
    means = speed.mean_table(result) if isinstance(result, SpeedReport) and len(shapes) > 1 else None
    if len(tables) <= _FEW:
        return {"means": means, "tables": tables, "every": None}
    rows = [
        [f"{shape.dtype} {shape.rows}{figures.TIMES}{shape.columns}", *row]
        for shape, table in zip(shapes, tables, strict=True)
        for row in table.rows
    ]
    every = figures.TextTable(f"all {len(tables)} shapes", ["shape", *tables[0].heading], rows)
    return {"means": means, "tables": [], "every": every}


def changes(comparison: Comparison) -> Contents:
    """The changes by word, and what could not be compared."""
    return {
        "closing": compare.closing(comparison),
        "heading": compare.HEADING[:-1],
        "groups": [(word, [compare.cells(c)[:-1] for c in of]) for word, of in by_word(comparison).items()],
        "remarks": compare.remarks(comparison),
    }


def recordings(result: Report | Trace) -> Contents:
    """The recordings of a trace, or of a report's traces, and what the script needs of them."""
    traces = (result,) if isinstance(result, Trace) else result.traces
    found = []
    for i, trace in enumerate(traces, 1):
        variant = one_line(f"{trace.variant}, {trace.dtype}")
        for j, row in enumerate(trace.rows, 1):
            anchor = f"steps-{i}-{j}"
            found.append(
                {
                    "anchor": anchor,
                    "title": f"{variant}, row {row.row}, {figures.plural(row.columns, 'column')}",
                    "case": one_line(trace.case),
                    "command": content.command(trace.command),
                    "row": row,
                    "lines": [*left_out(row), list(row_lines(row))[-1]],
                    "data": _data(row, anchor, variant),
                }
            )
    if not found:
        return {}
    return {
        "recordings": found,
        "variants": list(dict.fromkeys(one_line(f"{trace.variant}, {trace.dtype}") for trace in traces)),
        "notes": list(dict.fromkeys(one_line(f"{t.variant}: {note}") for t in traces for note in t.notes)),
        "triton": ", ".join(dict.fromkeys(one_line(trace.triton) for trace in traces)),
    }


def _data(row: TracedRow, anchor: str, variant: str) -> dict[str, object]:
    maximum = total = figures.NOT_MEASURED
    steps = []
    for step in row.steps:
        if step.lanes == 1 and step.phase in {"block_maximum", "running_maximum"}:
            maximum = number(step.value)
        if step.lanes == 1 and step.phase in {"block_sum", "running_sum"}:
            total = number(step.value)
        steps.append(
            {
                "program": ", ".join(map(str, step.program)),
                "columns": step.columns,
                "maximum": maximum,
                "sum": total,
                "lanes": [
                    [lane.column, number(lane.value), number(lane.exact), ulps(lane.error), int(lane.masked)]
                    for lane in step.shown
                ],
                "hidden": step.lanes - len(step.shown),
            }
        )
    of_row = {"row": row.row, "columns": row.columns, "block": row.block}
    return {"id": anchor, "variant": variant, **of_row, "steps": steps}
