"""The plots themselves, each from its data alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softcheck.report.figures import TIMES
from softcheck.report.model import Bin
from softcheck.report.page.axis import logarithmic, number, power
from softcheck.report.plots import style
from softcheck.report.plots.data import COPY, Field, Series, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 16
"""Ratio of the largest to the smallest size from which on sizes stand on a logarithmic axis."""
_FEW = 20
"""Sizes of which each has a tick, if there is room, and a large marker."""
_NEAR = 1.4
"""Ratio of two sizes on a logarithmic axis below which their ticks would touch."""
_PANELS = 4
_EDGES = 8
"""Ticks at edges of bins."""
_COPY_LOOK: dict[str, Any] = {"color": "0.0", "linewidth": 2.5, "alpha": 0.35}


def speed(sweep: Sweep, folder: Path) -> list[Path]:
    """GB/s along a sweep, with the device copy as the line that nothing is much above."""
    drawn = style.figure()
    axes = drawn.subplots()
    (copy,) = (series for series in sweep.speed if series.name == COPY)
    axes.plot(sweep.at, _with_gaps(copy), **_COPY_LOOK)
    variants = [series for series in sweep.speed if series is not copy]
    _lines(axes, sweep, variants)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_ylabel("GB/s (each element read once, written once)")
    _finish(axes, sweep, "speed", [*variants, copy])
    return style.save(drawn, folder, f"speed-{sweep.name}")


def ulp(sweep: Sweep, folder: Path) -> list[Path]:
    """Largest ULP error of the timed input along a sweep."""
    drawn = style.figure()
    axes = drawn.subplots()
    _lines(axes, sweep, sweep.ulp)
    _log(axes, [value for series in sweep.ulp for value in series.values])
    axes.set_ylabel("max ULP (at least, over the judged rows)")
    _finish(axes, sweep, "error", sweep.ulp)
    return style.save(drawn, folder, f"ulp-{sweep.name}")


def pareto(field: Field, folder: Path) -> list[Path]:
    """Error against speed with its intervals; a cross has findings, a filled marker is on the front, which the line joins."""
    drawn = style.figure()
    axes = drawn.subplots()
    best = field.best
    axes.step([p.gb_per_s for p in best], [p.max_ulp for p in best], where="pre", color="0.6", linewidth=1)
    axes.axvline(field.copy_gb_per_s, **_COPY_LOOK)
    named = []
    for index, point in enumerate(field.points):
        look = {**style.look(index), "linestyle": "none", "markersize": 8}
        if point.has_findings:
            look["marker"] = "x"
        axes.plot([point.low, point.high], [point.max_ulp] * 2, color=look["color"], linewidth=1)
        fill = look["color"] if point in best else "none"
        axes.plot([point.gb_per_s], [point.max_ulp], markerfacecolor=fill, **look)
        named.append(style.NamedPoint(point.name, point.gb_per_s, point.max_ulp, look["color"]))
    _log(axes, [point.max_ulp for point in field.points])
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_xlabel("GB/s, faster to the right; the grey line is the device copy's")
    axes.set_ylabel(f"max ULP on {field.judged_on}, more accurate below")
    meaning = "no front: errors of the timed input alone" if field.cases is None else "filled: on the front"
    axes.set_title(
        f"accuracy against speed, {field.dtype} {field.rows}{TIMES}{field.columns}\n({meaning}; crossed: findings)"
    )
    style.name(axes, named, is_scatter=True)
    return style.save(drawn, folder, field.name)


def histogram(dtype: str, bins: Mapping[str, tuple[Bin, ...]], folder: Path) -> list[Path]:
    """Share of elements by ULP error, a panel per variant on the same axes."""
    edges = [math.log2(b.below) for found in bins.values() for b in found]
    lowest, highest = math.floor(min(edges)), math.ceil(max(edges))
    ticks = range(lowest, highest + 1, -(-(highest - lowest + 1) // _EDGES))
    rows = -(-len(bins) // _PANELS)
    drawn = style.figure(_PANELS * 2.6, 1.0 + rows * 1.9)
    panels = drawn.subplots(rows, _PANELS, sharex=True, sharey=True, squeeze=False)
    shares = {name: _shares(found) for name, found in bins.items()}
    for axes, (name, share) in zip(panels.flat, shares.items(), strict=False):
        # A bin ends at its edge.
        axes.bar([math.log2(e) for e in share], list(share.values()), width=-0.85, align="edge", color="#0072b2")
        axes.set_title(name, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.set_xticks(ticks, [power(2, exponent) for exponent in ticks], rotation=60)
    _log(panels[0, 0], [value for share in shares.values() for value in share.values()])
    for axes in panels.flat[len(bins) :]:
        axes.set_axis_off()
    drawn.suptitle(f"{dtype}: share of elements by ULP error")
    drawn.supxlabel("ULP error below", fontsize=8)
    return style.save(drawn, folder, f"histogram-{dtype}")


def _shares(bins: tuple[Bin, ...]) -> dict[float, float]:
    total = sum(b.elements for b in bins)
    return {b.below: b.elements / total for b in bins}


def _log(axes: "Axes", values: Sequence[float | None]) -> None:
    """A logarithmic scale for these values, with few ticks."""
    axis = logarithmic("", [value for value in values if value is not None])
    ticks = axis.ticks()
    axes.set_yscale("log")
    axes.set_ylim(axis.low, axis.high)
    axes.set_yticks([value for value, _ in ticks], [text for _, text in ticks])
    axes.minorticks_off()


def _lines(axes: "Axes", sweep: Sweep, variants: Sequence[Series]) -> None:
    """A marker at each size that was measured; a line joins neighbouring ones, and is broken where a figure is missing."""
    for index, series in enumerate(variants):
        look = style.look(index)
        if len(sweep.at) > _FEW:
            look["markersize"] = 2
        axes.plot(sweep.at, _with_gaps(series), **look)


def _with_gaps(series: Series) -> list[float]:
    return [math.nan if value is None else value for value in series.values]


def _finish(axes: "Axes", sweep: Sweep, what: str, named: Sequence[Series]) -> None:
    if max(sweep.at) > _WIDE * min(sweep.at) and len(sweep.at) < _FEW:
        axes.set_xscale("log", base=2)
        ticks: list[int] = []
        for at in reversed(sweep.at):
            if not ticks or at * _NEAR < ticks[-1]:
                ticks.append(at)
        axes.set_xticks(ticks, [_size(at) for at in ticks])
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_xlabel(sweep.axis)
    other = "rows" if sweep.axis == "columns" else "columns"
    axes.set_title(f"{what} against {sweep.axis}, {sweep.dtype}, {sweep.fixed} {other}")
    ends = [(series, _last(sweep, series)) for series in named]
    colours = {series.name: style.look(i)["color"] for i, series in enumerate(s for s in named if s.name != COPY)}
    style.name(axes, [style.NamedPoint(s.name, *end, colours.get(s.name, "0.5")) for s, end in ends if end is not None])


def _last(sweep: Sweep, series: Series) -> tuple[float, float] | None:
    """The last size at which there is a figure, and the figure."""
    found = [(at, value) for at, value in zip(sweep.at, series.values, strict=True) if value is not None]
    return found[-1] if found else None


def _size(size: int) -> str:
    """A number of rows or columns: a power of two from 2^14 on as one, others in full."""
    return power(2, size.bit_length() - 1) if size >= 2**14 and size & (size - 1) == 0 else number(size)
