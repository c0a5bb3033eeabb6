"""Charts of accuracy against speed, with the front beyond noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from softcheck.report import figures
from softcheck.report.compare import SAME_ULP, Result, shapes_of
from softcheck.report.content import one_line
from softcheck.report.model import Report, ShapeSpeed, SpeedFigures
from softcheck.report.page.svg import Chart, Mark, linear, logarithmic
from softcheck.speed.statistics import MARGIN

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
