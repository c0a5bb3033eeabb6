"""The plots themselves, each from its data alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from softcheck.report.figures import TIMES
from softcheck.report.model import Bin
from softcheck.report.plots import style
from softcheck.report.plots.data import COPY, Field, Series, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 4
_PANELS = 4


def speed(sweep: Sweep, folder: Path) -> list[Path]:
    """GB/s along a sweep, with the device copy as the line that nothing is much above."""
    drawn = style.figure()
    axes = drawn.subplots()
    for number, series in enumerate(sweep.speed):
        if series.name == COPY:
            axes.plot(series.at, series.values, color="0.0", linewidth=2.5, alpha=0.35, label=COPY)
        else:
            _line(axes, series, number - 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GB/s (each element read once, written once)")
    _finish(axes, sweep, "speed")
    return style.save(drawn, folder, f"speed-{sweep.name}")


def ulp(sweep: Sweep, folder: Path) -> list[Path]:
    """Largest ULP error of the timed input along a sweep."""
    drawn = style.figure()
    axes = drawn.subplots()
    for number, series in enumerate(sweep.ulp):
        _line(axes, series, number)
    _log(axes)
    axes.set_ylabel("max ULP (at least, over the judged rows)")
    _finish(axes, sweep, "error")
    return style.save(drawn, folder, f"ulp-{sweep.name}")


def pareto(field: Field, folder: Path) -> list[Path]:
    """Error against speed with its intervals; a cross has findings, a filled marker is on the front, which the line joins."""
    drawn = style.figure()
    axes = drawn.subplots()
    best = field.best
    axes.step([p.gb_per_s for p in best], [p.max_ulp for p in best], where="pre", color="0.6", linewidth=1)
    axes.axvline(field.copy_gb_per_s, color="0.0", linewidth=2.5, alpha=0.35, label=COPY)
    for number, point in enumerate(field.points):
        look = {**style.look(number), "linestyle": "none", "markersize": 8}
        if point.has_findings:
            look["marker"] = "x"
        axes.plot([point.low, point.high], [point.max_ulp] * 2, color=look["color"], linewidth=1)
        fill = look["color"] if point in best else "none"
        axes.plot([point.gb_per_s], [point.max_ulp], markerfacecolor=fill, label=point.name, **look)
    _log(axes)
    axes.set_xlim(left=0)
    axes.set_xlabel("GB/s, faster to the right")
    axes.set_ylabel(f"max ULP on {field.judged_on}, more accurate below")
    meaning = "no front: errors of the timed input alone" if field.cases is None else "filled: on the front"
    shape = f"{field.dtype} {field.rows}{TIMES}{field.columns}"
    axes.set_title(f"accuracy against speed, {shape} ({meaning}; crossed: findings)")
    style.legend(axes)
    return style.save(drawn, folder, field.name)


def histogram(dtype: str, bins: Mapping[str, tuple[Bin, ...]], folder: Path) -> list[Path]:
    """Share of elements by ULP error, a panel per variant on the same axes."""
    edges = sorted({b.below for found in bins.values() for b in found})
    rows = -(-len(bins) // _PANELS)
    drawn = style.figure(_PANELS * 2.6, 1.0 + rows * 1.9)
    panels = drawn.subplots(rows, _PANELS, sharex=True, sharey=True, squeeze=False)
    for axes, (name, found) in zip(panels.flat, bins.items(), strict=False):
        total = sum(b.elements for b in found)
        share = {b.below: b.elements / total for b in found}
        axes.bar(
            range(len(edges)),
            [share.get(e, 0.0) for e in edges],
            color="0.75",
            edgecolor="0.0",
            hatch="///",
            linewidth=0.6,
        )
        _log(axes)
        axes.set_title(name, fontsize=8)
        step = max(1, len(edges) // 6)
        axes.set_xticks(range(0, len(edges), step), [f"{e:.2g}" for e in edges[::step]], rotation=60, fontsize=7)
    for axes in panels.flat[len(bins) :]:
        axes.set_axis_off()
    drawn.suptitle(f"{dtype}: share of elements by ULP error")
    drawn.supxlabel("ULP error below", fontsize=8)
    return style.save(drawn, folder, f"histogram-{dtype}")


def _log(axes: "Axes") -> None:
    """A logarithmic scale with plain numbers, of which only some are written where there are many."""
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    axes.tick_params(which="both", labelsize=7)


def _line(axes: "Axes", series: Series, number: int) -> None:
    every = max(1, len(series.at) // 12)
    axes.plot(series.at, series.values, label=series.name, markevery=(number % every, every), **style.look(number))


def _finish(axes: "Axes", sweep: Sweep, what: str) -> None:
    places = [at for series in sweep.ulp or sweep.speed for at in series.at]
    if places and max(places) > _WIDE * _WIDE * min(places) and len(set(places)) < 20:
        axes.set_xscale("log", base=2)
    axes.set_xlabel(sweep.axis)
    other = "rows" if sweep.axis == "columns" else "columns"
    axes.set_title(f"{what} against {sweep.axis}, {sweep.dtype}, {sweep.fixed} {other}")
    style.legend(axes)
