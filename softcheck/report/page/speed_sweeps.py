"""Speed and error along rows or columns: a panel for each variant over the reference's line and the device copy's."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from softcheck.report import content
from softcheck.report.model import Report, SpeedReport
from softcheck.report.page.axis import Axis, linear, logarithmic
from softcheck.report.page.svg import Chart
from softcheck.report.plots.data import COPY, Series, Sweep, shapes_of, sweeps
from softcheck.report.speed_build import TORCH

_MANY_SIZES = 12
"""Sizes from which on a line carries no dots."""


@dataclass(frozen=True, slots=True)
class SweepPanels:
    """A sweep's panels of one kind of figure, each with its variant's name."""

    title: str
    panels: list[tuple[str, Markup]]


def contents(result: Report | SpeedReport) -> Mapping[str, object] | None:
    """The panels of each sweep; None where no two shapes share a dtype and a dimension."""
    groups = []
    for sweep in sweeps(shapes_of([result])):
        behind = [(series, "muted") for series in sweep.speed if series.name == COPY]
        groups.append(_panels(sweep, "GB/s", sweep.speed, behind))
        groups.append(_panels(sweep, "max ULP of the timed input", sweep.ulp, []))
    return {"groups": groups, "reference": TORCH, "copy": COPY} if groups else None


def _panels(sweep: Sweep, what: str, drawn: tuple[Series, ...], behind: list[tuple[Series, str]]) -> SweepPanels:
    across = "rows" if sweep.axis == "columns" else "columns"
    sizes = sorted({at for series in drawn for at in series.at})
    x = _sizes(sweep.axis, sizes)
    values = [value for series in drawn for value in series.values]
    y = linear(what, values) if what == "GB/s" else logarithmic(what, values)
    behind = [*behind, *((series, "series-2") for series in drawn if series.name == TORCH)]
    panels = []
    for series in drawn:
        if series.name == COPY:
            continue
        chart = Chart(x, y, width=320, height=200)
        for other, cls in behind:
            if other.name != series.name:
                _line(chart, other, cls)
        _line(chart, series, "series-1")
        name = content.one_line(series.name)
        panels.append((name, chart.svg(f"{what} of {name} against {sweep.axis}", "the tables below hold the figures")))
    return SweepPanels(f"{what} against {sweep.axis}, {sweep.dtype}, {sweep.fixed} {across}", panels)


def _line(chart: Chart, series: Series, cls: str) -> None:
    points = list(zip(map(float, series.at), series.values, strict=True))
    chart.line(points, cls)
    if len(points) <= _MANY_SIZES:
        for x, y in points:
            chart.dot(x, y, cls, title=f"{content.one_line(series.name)}, {x:.0f}: {y:.4g}")


def _sizes(title: str, sizes: list[int]) -> Axis:
    """A logarithmic axis of sizes where they span octaves, else a linear one."""
    if sizes[-1] > 8 * max(sizes[0], 1):
        return logarithmic(title, map(float, sizes), base=2)
    return Axis(title, sizes[0] - 0.5, sizes[-1] + 0.5)
