"""Histograms of ULP errors: a panel for each variant over the reference's outline, a group for each dtype."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from softcheck.report import content
from softcheck.report.model import Bin, Report, VariantResult
from softcheck.report.page.axis import Axis, logarithmic, power
from softcheck.report.page.reference import reference_of
from softcheck.report.page.svg import Chart

_ROOM = 3
"""Octaves that the axis shows beyond the errors of the kernels without findings; larger errors share one bar."""

_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class HistogramGroup:
    """The panels of one dtype, and the same shares as rows of a table under the bins' edges."""

    dtype: str
    panels: list[tuple[str, Markup]]
    heading: list[str]
    rows: list[list[str]]
    has_reference: bool
    has_bounds: bool


def contents(report: Report) -> Mapping[str, object] | None:
    """The panels by dtype; None where no error was counted."""
    groups = []
    for dtype, results in content.by_dtype(report).items():
        shown = [result for result in results if result.histogram]
        if shown:
            groups.append(_group(dtype, shown))
    return {"groups": groups} if groups else None


def _group(dtype: str, results: Sequence[VariantResult]) -> HistogramGroup:
    right = [result for result in results if not result.findings] or results
    last = _octave(max(result.histogram[-1].below for result in right)) + _ROOM
    last = min(last, _octave(max(result.histogram[-1].below for result in results)))
    last = max([last, *(math.ceil(math.log2(bound)) for result in right if (bound := _largest_bound(result)))])
    first = min(_octave(result.histogram[0].below) for result in results)
    shares = {result.name: _shares(result.histogram, last) for result in results}
    y = logarithmic("share of elements", [share for of in shares.values() for share in of.values()])
    references = [reference_of(result, results) for result in results]
    panels = [
        (
            content.one_line(result.name),
            _panel(result, shares[result.name], None if behind is None else shares[behind.name], y, (first, last)),
        )
        for result, behind in zip(results, references, strict=True)
    ]
    edges = range(first, last + 2)
    heading = ["variant", *(f"< {power(2, k)}" if k <= last else "more" for k in edges)]
    rows = [
        [content.one_line(name), *(f"{of[k]:.3g}" if k in of else "0" for k in edges)] for name, of in shares.items()
    ]
    return HistogramGroup(dtype, panels, heading, rows, any(references), any(map(_largest_bound, results)))


def _panel(
    result: VariantResult,
    shares: Mapping[int, float],
    reference: Mapping[int, float] | None,
    y: Axis,
    octaves: tuple[int, int],
) -> Markup:
    first, last = octaves
    every = max(1, math.ceil((last - first) / _MOST_TICKS))
    named = {float(k): power(2, k) for k in range(first, last + 1) if (k + 1) % every == 0}
    x = Axis("ULP error", first - 1, last + 1, named=named)
    chart = Chart(x, y, width=320, height=190)
    for octave, share in shares.items():
        edge = f"below {power(2, octave)} ULP" if octave <= last else f"from {power(2, last)} ULP on"
        chart.box((octave - 1, y.low), (octave, share), "series-1", title=f"{edge}: {share:.3g}", gap=1)
    if reference is not None:
        end = max(reference)
        steps = [(float(k), reference.get(k + 1, y.low)) for k in range(first - 1, end)]
        chart.line([*steps, (float(end), y.low)], "series-2", step=True)
    if first <= -1 <= last:
        chart.rule("0.5", x=-1, before=True)
    bound = _largest_bound(result)
    if bound is not None and first <= math.log2(bound) <= last:
        chart.rule("bound", x=math.log2(bound), cls="fail")
    return chart.svg(
        f"ULP errors of {content.one_line(result.name)}, {result.dtype}", "the table below holds the shares"
    )


def _largest_bound(result: VariantResult) -> float | None:
    """The largest error in ULPs that the contract allows on any element judged in a case; None where no run kept it."""
    bounds = [peak.bound for peak in result.error_by_distance if math.isfinite(peak.bound) and peak.bound > 0]
    return max(bounds, default=None)


def _shares(bins: Sequence[Bin], last: int) -> dict[int, float]:
    """Shares of elements by the octave in which their errors end; all beyond ``last`` count as the octave after it."""
    total = sum(b.elements for b in bins)
    found: dict[int, float] = {}
    for b in bins:
        octave = min(_octave(b.below), last + 1)
        found[octave] = found.get(octave, 0.0) + b.elements / total
    return found


def _octave(edge: float) -> int:
    return round(math.log2(edge))
