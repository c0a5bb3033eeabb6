"""Speed and error along rows or columns: a panel for each variant over the reference's line and the device copy's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from softcheck.report import content
from softcheck.report.charts import COPY, Series, SpeedSweep, sweeps
from softcheck.report.model import SpeedReport
from softcheck.report.page.axis import Axis, linear, logarithmic
from softcheck.report.page.svg import Chart

_MANY_SIZES = 12
"""Sizes from which on a line carries no dots."""


@dataclass(frozen=True, slots=True)
class SweepPanels:
    """A sweep's panels of one kind of figure, each with its variant's name."""

    title: str
    panels: list[tuple[str, Markup]]


def contents(report: SpeedReport) -> Mapping[str, object] | None:
    """The panels of each sweep; None where no sizes make a sweep."""
    groups = []
    for sweep in sweeps(report):
        behind = [(series, "muted") for series in sweep.speed if series.name == COPY]
        for what, drawn, other in (("GB/s", sweep.speed, behind), ("max ULP of the timed input", sweep.ulp, [])):
            reference = [(series, "series-2") for series in drawn if series.name == report.reference]
            groups.append(_panels(sweep, what, drawn, [*other, *reference]))
    return {"groups": groups, "reference": content.one_line(report.reference), "copy": COPY} if groups else None


def _panels(sweep: SpeedSweep, what: str, drawn: tuple[Series, ...], behind: list[tuple[Series, str]]) -> SweepPanels:
    across = "rows" if sweep.axis == "columns" else "columns"
    x = _sizes(sweep.axis, sweep.at)
    values = [value for series in drawn for value in series.values if value is not None]
    y = linear(what, values) if what == "GB/s" else logarithmic(what, values)
    panels = []
    for series in drawn:
        if series.name == COPY:
            continue
        chart = Chart(x, y, width=320, height=200)
        for other, cls in behind:
            if other.name != series.name:
                _line(chart, sweep, other, cls)
        _line(chart, sweep, series, "series-1")
        name = content.one_line(series.name)
        panels.append((name, chart.svg(f"{what} of {name} against {sweep.axis}", "the tables below hold the figures")))
    return SweepPanels(f"{what} against {sweep.axis}, {sweep.dtype}, {sweep.fixed} {across}", panels)


def _line(chart: Chart, sweep: SpeedSweep, series: Series, cls: str) -> None:
    """A line through the sizes that were measured, broken where there is no figure, with a dot at each of few sizes."""
    points = [(float(at), value) for at, value in zip(sweep.at, series.values, strict=True)]
    for is_measured, part in groupby(points, lambda point: point[1] is not None):
        if is_measured:
            chart.line([(x, y) for x, y in part if y is not None], cls)
    if len(points) < _MANY_SIZES:
        for x, y in points:
            if y is not None:
                chart.dot(x, y, cls, title=f"{content.one_line(series.name)}, {x:.0f}: {y:.4g}")


def _sizes(title: str, sizes: Sequence[int]) -> Axis:
    """A logarithmic axis of sizes where they span octaves, else a linear one."""
    if sizes[-1] > 8 * max(sizes[0], 1):
        return logarithmic(title, map(float, sizes), base=2)
    return Axis(title, sizes[0] - 0.5, sizes[-1] + 0.5)
