"""Errors along a row: the largest error and bound by the distance from the row's maximum and by column, over torch's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from softcheck.operations.registry import operation
from softcheck.report import content, figures
from softcheck.report.model import ErrorPeak, Report, VariantResult
from softcheck.report.page.axis import Axis, logarithmic, number, power
from softcheck.report.page.reference import reference_of
from softcheck.report.page.svg import Chart

Along = Literal["distance", "column"]
ALONG: tuple[Along, Along] = ("distance", "column")

_LEAST_ULP, _MOST_ULP = 0.01, 1e9
"""The low end of the charts, and their highest end, in ULPs. Errors beyond lie on these."""

_FIRST_EDGE = 2.0**-10
_LEAST_DISTANCE: float = _FIRST_EDGE / 1.4
_FARTHEST = 1448.0
"""The places of the first and the last bin of distances, which have no middle."""


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """The two charts of one variant."""

    name: str
    by_distance: Markup
    by_column: Markup


@dataclass(frozen=True, slots=True)
class CurveGroup:
    """The panels of one dtype, and their figures as rows of two tables with a column for each variant."""

    dtype: str
    panels: list[CurvePanel]
    heading: list[str]
    by_distance: list[list[str]]
    by_column: list[list[str]]


def contents(report: Report) -> Mapping[str, object] | None:
    """The panels by dtype; None where no curve was measured."""
    groups = []
    for dtype, results in content.by_dtype(report).items():
        shown = [result for result in results if result.error_by_distance and result.error_by_column]
        if shown:
            groups.append(_group(dtype, shown))
    units = dict.fromkeys(unit for result in report.variants if (unit := operation(result.operation).scale_text))
    return {"groups": groups, "units": list(units)} if groups else None


def _group(dtype: str, results: Sequence[VariantResult]) -> CurveGroup:
    panels = []
    for result in results:
        reference = reference_of(result, results)
        charts = [_chart(result, reference, along) for along in ALONG]
        panels.append(CurvePanel(content.one_line(result.name), *charts))
    names = [content.one_line(result.name) for result in results]
    tables = [list(_rows(results, along)) for along in ALONG]
    return CurveGroup(dtype, panels, names, *tables)


def _peaks(result: VariantResult, along: Along) -> tuple[ErrorPeak, ...]:
    return result.error_by_distance if along == "distance" else result.error_by_column


def _chart(result: VariantResult, reference: VariantResult | None, along: Along) -> Markup:
    peaks = _peaks(result, along)
    others = () if reference is None else _peaks(reference, along)
    highest = max(max(peak.ulp, peak.bound) for peak in (*peaks, *others))
    chart = Chart(_axis(along, peaks), logarithmic("ULP", [_LEAST_ULP, min(highest, _MOST_ULP)]), width=440, height=240)
    chart.line([(_place(peak, along), peak.bound) for peak in peaks], "muted dashed")
    if others:
        chart.line([(_place(peak, along), peak.ulp) for peak in others], "series-2 dotted")
    chart.line([(_place(peak, along), peak.ulp) for peak in peaks], "series-1")
    for peak in peaks:
        if peak.share > 1:
            title = f"an error of {peak.share:.3g} times its own bound"
            chart.dot(_place(peak, along), peak.ulp, "fail", mark="cross", title=title)
    name = content.one_line(result.name)
    return chart.svg(f"errors of {name}, {result.dtype}, by {along}", "the tables below hold the figures")


def _axis(along: Along, peaks: Sequence[ErrorPeak]) -> Axis:
    if along == "distance":
        return Axis("distance max x \N{MINUS SIGN} x of a logit from its row's largest", _LEAST_DISTANCE, _FARTHEST, 10)
    last = max(1.0, *(_place(peak, along) for peak in peaks))
    named = {0.0: "0"} | {k + 1.0: power(2, k) for k in range(0, int(last), 3)}
    return Axis("column", 0.0, last, named=named)


def _place(peak: ErrorPeak, along: Along) -> float:
    """The middle of a bin of distances, or the number of a bin of columns: 0, 1, 2 to 3, 4 to 7."""
    if peak.below is None:
        return _FARTHEST
    if along == "column":
        return float(int(peak.below).bit_length() - 1)
    return max(peak.below * 0.8, _LEAST_DISTANCE) if peak.below > _FIRST_EDGE else _LEAST_DISTANCE


def _rows(results: Sequence[VariantResult], along: Along) -> Iterator[list[str]]:
    """A row for each bin: the values below which it lies, and each variant's error, bound, and share if it is above 1."""
    found = {result.name: {peak.below: peak for peak in _peaks(result, along)} for result in results}
    edges = {below for peaks in found.values() for below in peaks}
    for edge in sorted(edges, key=lambda below: float("inf") if below is None else below):
        cells = (found[result.name].get(edge) for result in results)
        yield ["more" if edge is None else f"< {number(edge)}", *map(_cell, cells)]


def _cell(peak: ErrorPeak | None) -> str:
    if peak is None:
        return figures.NOT_MEASURED
    broken = f", {peak.share:.3g}{figures.TIMES} its own" if peak.share > 1 else ""
    return f"{peak.ulp:.3g} / {peak.bound:.3g}{broken}"
