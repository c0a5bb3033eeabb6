"""The tables of a benchmark: one for each shape, the geometric means over shapes first, and the remarks on them."""

from collections.abc import Mapping
from dataclasses import replace

from softcheck.report import speed_text
from softcheck.report.figures import TIMES
from softcheck.report.model import SpeedReport

_FEW = 3
"""Shapes up to which each has a table of its own."""


def contents(report: SpeedReport) -> Mapping[str, object] | None:
    """The tables as the terminal has them, those of many shapes joined to one; None where no shape was timed."""
    if not report.shapes:
        return None
    tables = [
        replace(table, heading=[title or "verdict" for title in table.heading]) for table in speed_text.tables(report)
    ]
    means = tables.pop() if len(report.shapes) > 1 else None
    if len(tables) <= _FEW:
        return {"means": means, "tables": tables, "every": None}
    rows = [
        [f"{shape.dtype} {shape.rows}{TIMES}{shape.columns}", *row]
        for shape, table in zip(report.shapes, tables, strict=True)
        for row in table.rows
    ]
    every = speed_text.TextTable(f"all {len(tables)} shapes", ["shape", *tables[0].heading], rows)
    return {"means": means, "tables": [], "every": every}


def remarks(report: SpeedReport) -> Mapping[str, object] | None:
    """Reasons for which a figure is doubtful or missing; None where there is none."""
    lines = speed_text.remarks(report)
    return {"parts": [("", lines)], "folded": False} if lines else None
