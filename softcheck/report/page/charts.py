"""Charts of errors, over torch's own where it was judged, and of accuracy against speed, with their tables; and a comparison's changes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from markupsafe import Markup

from softcheck.operations.registry import operation
from softcheck.report import compare, content, figures
from softcheck.report.compare import SAME_ULP, Comparison, Result, by_word, shapes_of
from softcheck.report.content import one_line
from softcheck.report.model import TORCH, Bin, ErrorPeak, Report, ShapeSpeed, SpeedFigures, VariantResult
from softcheck.report.page.svg import Axis, Chart, Mark, linear, logarithmic, number, power
from softcheck.speed.statistics import MARGIN

Along = Literal["distance", "column"]
ALONG: tuple[Along, Along] = ("distance", "column")

_ROOM = 3
"""Octaves that the axis shows beyond the errors of the kernels without findings; larger errors share one bar."""
_MOST_TICKS = 6

_LEAST_ULP, _MOST_ULP = 0.01, 1e9
"""The low end of the curves, and their highest end, in ULPs. Errors beyond lie on these."""
_FIRST_EDGE = 2.0**-10
_LEAST_DISTANCE: float = _FIRST_EDGE / 1.4
_FARTHEST = 1448.0
"""The places of the first and the last bin of distances, which have no middle."""


def reference_of(result: VariantResult, results: Sequence[VariantResult]) -> VariantResult | None:
    """The result of torch's own variant of the same operation and dtype; None for that itself, or where there is none."""
    if _is_torchs_own(result):
        return None
    like = (result.operation, result.dtype)
    return next((r for r in results if (r.operation, r.dtype) == like and _is_torchs_own(r)), None)


def _is_torchs_own(result: VariantResult) -> bool:
    # A name may end in promises, as in torch_log_softmax@operation=log_softmax.
    return result.name.partition("@")[0] in {TORCH, f"{TORCH}_{result.operation}"}


def histograms(report: Report) -> Mapping[str, object]:
    """A panel for each variant with its shares of elements by ULP error, and the same shares as a table, by dtype."""
    groups = []
    for dtype, every in content.by_dtype(report).items():
        if results := [result for result in every if result.histogram]:
            groups.append(_histograms(dtype, results))
    return {"groups": groups} if groups else {}


def _histograms(dtype: str, results: Sequence[VariantResult]) -> dict[str, object]:
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
            one_line(r.name),
            _histogram(r, shares[r.name], None if behind is None else shares[behind.name], y, first, last),
        )
        for r, behind in zip(results, references, strict=True)
    ]
    edges = range(first, last + 2)
    return {
        "dtype": dtype,
        "panels": panels,
        "heading": ["variant", *(f"< {power(2, k)}" if k <= last else "more" for k in edges)],
        "rows": [[one_line(n), *(f"{of[k]:.3g}" if k in of else "0" for k in edges)] for n, of in shares.items()],
        "has_reference": any(references),
        "has_bounds": any(map(_largest_bound, results)),
    }


def _histogram(
    result: VariantResult,
    shares: Mapping[int, float],
    reference: Mapping[int, float] | None,
    y: Axis,
    first: int,
    last: int,
) -> Markup:
    every = max(1, math.ceil((last - first) / _MOST_TICKS))
    named = {float(k): power(2, k) for k in range(first, last + 1) if (k + 1) % every == 0}
    chart = Chart(Axis("ULP error", first - 1, last + 1, named=named), y, width=320, height=190)
    for octave, share in shares.items():
        edge = f"below {power(2, octave)} ULP" if octave <= last else f"from {power(2, last)} ULP on"
        chart.bar((octave - 1, y.low), (octave, share), "series-1", title=f"{edge}: {share:.3g}")
    if reference is not None:
        end = max(reference)
        steps = [(float(k), reference.get(k + 1, y.low)) for k in range(first - 1, end)]
        chart.line([*steps, (float(end), y.low)], "series-2", step=True)
    if first <= -1 <= last:
        chart.rule("0.5", -1, before=True)
    bound = _largest_bound(result)
    if bound is not None and first <= math.log2(bound) <= last:
        chart.rule("bound", math.log2(bound), cls="fail")
    return chart.svg(f"ULP errors of {one_line(result.name)}, {result.dtype}", "the table below holds the shares")


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


def error_curves(report: Report) -> Mapping[str, object]:
    """The largest error and bound by the distance from the row's maximum and by column: two charts for each variant, by dtype."""
    groups = []
    for dtype, every in content.by_dtype(report).items():
        if results := [result for result in every if result.error_by_distance and result.error_by_column]:
            panels = []
            for result in results:
                reference = reference_of(result, results)
                panels.append((one_line(result.name), [_curve(result, reference, along) for along in ALONG]))
            tables = [(along, list(_rows(results, along))) for along in ALONG]
            heading = [one_line(result.name) for result in results]
            groups.append({"dtype": dtype, "panels": panels, "heading": heading, "tables": tables})
    units = dict.fromkeys(unit for result in report.variants if (unit := operation(result.operation).scale_text))
    return {"groups": groups, "units": list(units)} if groups else {}


def _peaks(result: VariantResult, along: Along) -> tuple[ErrorPeak, ...]:
    return result.error_by_distance if along == "distance" else result.error_by_column


def _curve(result: VariantResult, reference: VariantResult | None, along: Along) -> Markup:
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
    name = one_line(result.name)
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


def changes(comparison: Comparison) -> Mapping[str, object]:
    """The changes by word, and what could not be compared."""
    return {
        "closing": None,
        "heading": compare.HEADING[:-1],
        "groups": [(word, [compare.cells(c)[:-1] for c in of]) for word, of in by_word(comparison).items()],
        "remarks": compare.remarks(comparison),
    }


def changes_since_the_baseline(comparison: Comparison) -> Mapping[str, object]:
    """The same under the sentence that a comparison's own page begins with."""
    return {**changes(comparison), "closing": compare.closing(comparison)}


COPY = "device copy"

_MOST_FIELDS = 6
"""Fields per dtype of which each is drawn."""

HEADING = ["variant", "GB/s [low, high]", "of copy", "max ULP", "findings", "on the front"]


class Point(NamedTuple):
    """One variant: GB/s with the ends of its interval, against its largest ULP error."""

    name: str
    gb_per_s: float
    low: float
    high: float
    max_ulp: float
    has_findings: bool = False
    """True if a promise was broken, by a declared defect or not; the variant is then no choice beside right ones."""


@dataclass(frozen=True, slots=True)
class Field:
    """All variants of one shape, the fastest and most accurate of which make the front."""

    shape: ShapeSpeed
    points: tuple[Point, ...]
    cases: int | None
    """Number of cases over which the errors are the largest; None if the errors are those of the timed input alone."""

    @property
    def best(self) -> list[Point]:
        """The front of the variants without findings; empty if the errors are those of the timed input, which may be far off elsewhere."""
        return [] if self.cases is None else front([point for point in self.points if not point.has_findings])


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats: none is better in one figure beyond noise and no worse in the other; slowest first."""
    best = [p for p in points if not any(_beats(other, p) for other in points)]
    return sorted(best, key=lambda point: (point.gb_per_s, -point.max_ulp))


def _beats(one: Point, other: Point) -> bool:
    is_faster, is_slower = one.low > other.high * (1 + MARGIN), one.high * (1 + MARGIN) < other.low
    gain = other.max_ulp - one.max_ulp
    return (is_faster and gain >= -SAME_ULP) or (not is_slower and gain > SAME_ULP)


def fields(result: Result) -> list[Field]:
    """Returns a field per dtype and shape, with a report's largest errors of all cases, or a benchmark's of the timed input."""
    report = result if isinstance(result, Report) else None
    cases = None if report is None else len(report.cases)
    found: dict[tuple[str, int, int], Field] = {}
    for shape in shapes_of(result):
        points = tuple(filter(None, (_point(figures, shape, report) for figures in shape.variants)))
        if points:
            found[shape.dtype, shape.rows, shape.columns] = Field(shape, points, cases)
    return list(found.values())


def _point(speed: SpeedFigures, shape: ShapeSpeed, report: Report | None) -> Point | None:
    """A variant's point; None if it was not timed, or not judged."""
    rows = () if report is None else report.variants
    row = next((row for row in rows if row.name == speed.variant and row.dtype == shape.dtype), None)
    ulp = speed.max_ulp if report is None else None if row is None else row.max_ulp
    if speed.gb_per_s is None or speed.seconds is None or ulp is None:
        return None
    moved = speed.gb_per_s * speed.seconds.mid
    low, high = moved / speed.seconds.high, moved / speed.seconds.low
    return Point(speed.variant, speed.gb_per_s, low, high, ulp, bool(row and row.findings))


def accuracy(result: Result) -> Mapping[str, object]:
    """Charts of the shapes that were timed, with the same figures as tables; of a dtype's long sweep the ends and the middle."""
    by_dtype: dict[str, list[Field]] = {}
    for field in fields(result):
        by_dtype.setdefault(field.shape.dtype, []).append(field)
    chosen = (of if len(of) <= _MOST_FIELDS else [of[0], of[len(of) // 2], of[-1]] for of in by_dtype.values())
    drawings = [_drawn(field) for of in chosen for field in of]
    return {"drawings": drawings, "heading": HEADING} if drawings else {}


def _drawn(field: Field) -> dict[str, object]:
    shape, best = field.shape, field.best
    title = f"{shape.dtype} {shape.rows}{figures.TIMES}{shape.columns}"
    rows = [
        [
            one_line(point.name),
            f"{figures.speed(point.gb_per_s)} [{figures.speed(point.low)}, {figures.speed(point.high)}]",
            # A file of a stranger's may hold a copy that took for ever.
            f"{point.gb_per_s / shape.copy_gb_per_s:.0%}" if shape.copy_gb_per_s > 0 else figures.NOT_MEASURED,
            figures.max_ulp_of_samples(point.max_ulp),
            "yes" if point.has_findings else figures.NOT_MEASURED if field.cases is None else "none",
            "yes" if point in best else "",
        ]
        for point in sorted(field.points, key=lambda point: -point.gb_per_s)
    ]
    cases = None if field.cases is None else figures.plural(field.cases, "case")
    return {"title": title, "chart": _chart(field, best, title), "cases": cases, "rows": rows}


def _chart(field: Field, best: Sequence[Point], title: str) -> Markup:
    # Errors of broken kernels may be 10^40 ULPs, beside which all others would lie on one line.
    right = [point.max_ulp for point in field.points if not point.has_findings]
    top = 2 * max(right) if right else max(point.max_ulp for point in field.points)
    copy = field.shape.copy_gb_per_s
    x = linear("GB/s, each element read once and written once", [copy, *(p.high for p in field.points)])
    y = logarithmic("largest error in ULPs", [min(p.max_ulp, top) for p in field.points])
    longest = max(len(one_line(point.name, 40)) for point in field.points)
    chart = Chart(x, y, width=660 + 8 * longest, height=400, right=8 * longest + 100)
    chart.rule(COPY, copy)
    if len(best) > 1:
        chart.line([(point.gb_per_s, point.max_ulp) for point in best], "muted", step=True)
    names = []
    for point in field.points:
        cls = "fail" if point.has_findings else "series-1"
        height, ulp = min(point.max_ulp, y.high), figures.max_ulp_of_samples(point.max_ulp)
        chart.line([(point.low, height), (point.high, height)], cls)
        said = f"{one_line(point.name)}: {figures.speed(point.gb_per_s)} GB/s, {ulp} ULP"
        mark: Mark = "cross" if point.has_findings else "circle" if point in best else "ring"
        chart.dot(point.gb_per_s, height, cls, mark=mark, title=said)
        beyond = f" ↑ {ulp}" if point.max_ulp > y.high else ""
        names.append((point.gb_per_s, height, f"{one_line(point.name, 40)}{beyond}", cls))
    chart.names(names)
    return chart.svg(
        f"Accuracy against speed, {title}", f"{len(field.points)} variants; the table below holds the figures"
    )
