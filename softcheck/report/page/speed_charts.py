"""Charts of speed: accuracy against speed with the front beyond noise, and figures along rows or columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from markupsafe import Markup

from softcheck.report import figures
from softcheck.report.compare import SAME_ULP, Result, shapes_of
from softcheck.report.content import one_line
from softcheck.report.model import Report, ShapeSpeed, SpeedFigures, SpeedReport
from softcheck.report.page.svg import Axis, Chart, Mark, linear, logarithmic
from softcheck.speed.statistics import MARGIN

COPY = "device copy"

LEAST_SIZES = 3
"""Sizes of which a line can say anything; two shapes that happen to share a dimension make no sweep."""

_MANY_SIZES = 12
"""Sizes from which on a line carries no dots."""

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
        """The front of the variants without findings; empty if the errors are those of the timed input alone.

        A kernel that is accurate on the timed input may be far off elsewhere, so that input chooses none.
        """
        return [] if self.cases is None else front([point for point in self.points if not point.has_findings])


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats: none is better in one figure beyond noise and no worse in the other.

    Speeds differ where the intervals are more than ``MARGIN`` apart, and errors where they differ by more than ``SAME_ULP``.
    Slowest first.
    """
    best = [p for p in points if not any(_beats(other, p) for other in points)]
    return sorted(best, key=lambda point: (point.gb_per_s, -point.max_ulp))


def _beats(one: Point, other: Point) -> bool:
    is_faster, is_slower = one.low > other.high * (1 + MARGIN), one.high * (1 + MARGIN) < other.low
    gain = other.max_ulp - one.max_ulp
    return (is_faster and gain >= -SAME_ULP) or (not is_slower and gain > SAME_ULP)


def fields(result: Result) -> list[Field]:
    """Returns a field per dtype and shape.

    The errors of a report are the largest of all its cases, those of a benchmark the timed input's.
    """
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
    chart = Chart(x, y, width=820, height=400)
    chart.rule(COPY, copy)
    if len(best) > 1:
        chart.line([(point.gb_per_s, point.max_ulp) for point in best], "muted", step=True)
    names = []
    for point in field.points:
        cls = "fail" if point.has_findings else "series-1"
        height, ulp = min(point.max_ulp, y.high), figures.max_ulp_of_samples(point.max_ulp)
        chart.span((point.low, height), (point.high, height), cls)
        said = f"{one_line(point.name)}: {figures.speed(point.gb_per_s)} GB/s, {ulp} ULP"
        mark: Mark = "cross" if point.has_findings else "circle" if point in best else "ring"
        chart.dot(point.gb_per_s, height, cls, mark=mark, title=said)
        beyond = f" ↑ {ulp}" if point.max_ulp > y.high else ""
        names.append((point.gb_per_s, height, f"{one_line(point.name, 40)}{beyond}", cls))
    chart.label(names)
    return chart.svg(
        f"Accuracy against speed, {title}", f"{len(field.points)} variants; the table below holds the figures"
    )


class SizeSweep(NamedTuple):
    """Shapes of one result and dtype that differ in one dimension only, at least ``LEAST_SIZES`` of them."""

    dtype: str
    axis: str
    """``columns`` or ``rows``, whichever varies."""
    fixed: int
    """The other dimension."""
    shapes: Mapping[int, ShapeSpeed]
    """The shapes by their sizes along the axis, ascending."""

    def series(self, figure: str) -> dict[str, list[float | None]]:
        """A figure of each variant that has any, at each of the sizes; None where there is none."""
        by_name = [{f.variant: getattr(f, figure) for f in shape.variants} for shape in self.shapes.values()]
        names = dict.fromkeys(name for at_size in by_name for name in at_size)
        found = {name: [at_size.get(name) for at_size in by_name] for name in names}
        return {name: values for name, values in found.items() if any(v is not None for v in values)}


def sweeps(result: Result) -> list[SizeSweep]:
    """Returns the sweeps of a result."""
    groups: dict[tuple[str, str, int], dict[int, ShapeSpeed]] = {}
    for shape in shapes_of(result):
        groups.setdefault((shape.dtype, "columns", shape.rows), {})[shape.columns] = shape
        groups.setdefault((shape.dtype, "rows", shape.columns), {})[shape.rows] = shape
    return [SizeSweep(*at, dict(sorted(of.items()))) for at, of in groups.items() if len(of) >= LEAST_SIZES]


def sweep_panels(report: SpeedReport) -> Mapping[str, object]:
    """A panel for each variant along each sweep, over the reference's line and for speed the device copy's."""
    groups = []
    for sweep in sweeps(report):
        across = "rows" if sweep.axis == "columns" else "columns"
        copy = list(map(attrgetter("copy_gb_per_s"), sweep.shapes.values()))
        for figure, what in (("gb_per_s", "GB/s"), ("max_ulp", "max ULP of the timed input")):
            title = f"{what} against {sweep.axis}, {sweep.dtype}, {sweep.fixed} {across}"
            behind = [(COPY, copy, "muted")] if figure == "gb_per_s" else []
            groups.append((title, list(_panels(sweep, figure, what, report.reference, behind))))
    return {"groups": groups, "reference": one_line(report.reference), "copy": COPY} if groups else {}


def _panels(
    sweep: SizeSweep, figure: str, what: str, reference: str, behind: list[tuple[str, list[float | None], str]]
) -> Iterable[tuple[str, Markup]]:
    drawn, sizes = sweep.series(figure), list(sweep.shapes)
    if sizes[-1] > 8 * max(sizes[0], 1):
        x = logarithmic(sweep.axis, map(float, sizes), base=2)
    else:
        x = Axis(sweep.axis, sizes[0] - 0.5, sizes[-1] + 0.5)
    values = [v for of in (*drawn.values(), *(values for _, values, _ in behind)) for v in of if v is not None]
    y = linear(what, values) if figure == "gb_per_s" else logarithmic(what, values)
    for name, of_variant in drawn.items():
        chart = Chart(x, y, width=320, height=200)
        others = [(reference, drawn[reference], "series-2")] if reference in drawn and reference != name else []
        for line in (*behind, *others, (name, of_variant, "series-1")):
            _line(chart, sizes, *line)
        said = one_line(name)
        yield said, chart.svg(f"{what} of {said} against {sweep.axis}", "the tables below hold the figures")


def _line(chart: Chart, sizes: Sequence[int], name: str, values: Sequence[float | None], cls: str) -> None:
    """A line through the sizes that were measured, broken where there is no figure, with a dot at each of few sizes."""
    points = [(float(at), value) for at, value in zip(sizes, values, strict=True)]
    for is_measured, part in groupby(points, lambda point: point[1] is not None):
        if is_measured:
            chart.line([(x, y) for x, y in part if y is not None], cls)
    if len(points) < _MANY_SIZES:
        for x, y in points:
            if y is not None:
                chart.dot(x, y, cls, title=f"{one_line(name)}, {x:.0f}: {y:.4g}")
