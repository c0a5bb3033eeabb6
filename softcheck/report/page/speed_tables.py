"""The tables of a benchmark: one for each shape, the geometric means over shapes first, and the remarks on them."""

from collections.abc import Mapping

from softcheck.report import speed_text
from softcheck.report.model import SpeedReport


def contents(report: SpeedReport) -> Mapping[str, object] | None:
    """The tables as the terminal has them; None where no shape was timed."""
    if not report.shapes:
        return None
    *shapes, last = speed_text.tables(report)
    means = last if len(report.shapes) > 1 else None
    return {"means": means, "tables": shapes if means else [last]}


def remarks(report: SpeedReport) -> Mapping[str, object] | None:
    """What makes a figure doubtful, or why there is none; None where there is nothing to say."""
    lines = speed_text.remarks(report)
    return {"parts": [("", lines)]} if lines else None
