"""Contents of the charts of speed, picked from results: series over columns or rows, and points of a Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

from softcheck.report.model import Report, SpeedReport
from softcheck.report.speed_model import ShapeSpeed, SpeedFigures
from softcheck.speed.statistics import MARGIN

Result = Report | SpeedReport

COPY = "device copy"

SAME_ULP = 0.01
"""ULPs by which two maxima may differ and still count as the same."""


LEAST_SIZES = 3
"""Sizes of which a line can say anything; two shapes that happen to share a dimension make no sweep."""


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of one variant along a sweep, one for each of its sizes; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SpeedSweep:
    """Shapes of one result and dtype that differ in one dimension only, at least ``LEAST_SIZES`` of them."""

    dtype: str
    axis: str
    """``columns`` or ``rows``, whichever varies."""
    fixed: int
    """The other dimension."""
    at: tuple[int, ...]
    """Sizes along the axis, ascending."""
    speed: tuple[Series, ...]
    ulp: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Point:
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
    """All variants of one dtype and shape, the fastest and most accurate of which make the front."""

    dtype: str
    rows: int
    columns: int
    copy_gb_per_s: float
    points: tuple[Point, ...]
    cases: int | None
    """Number of cases over which the errors are the largest; None if the errors are those of the timed input alone."""

    @property
    def best(self) -> list[Point]:
        """The front of the variants without findings; empty if the errors are those of the timed input alone.

        A kernel that is accurate on the timed input may be far off elsewhere, so that input chooses none.
        """
        return [] if self.cases is None else front([point for point in self.points if not point.has_findings])


def shapes_of(result: Result) -> tuple[ShapeSpeed, ...]:
    """All timed shapes, in order."""
    return result.shapes if isinstance(result, SpeedReport) else result.timings


def sweeps(result: Result) -> list[SpeedSweep]:
    """Returns the sweeps of a result."""
    groups: dict[tuple[str, str, int], dict[int, ShapeSpeed]] = {}
    for shape in shapes_of(result):
        groups.setdefault((shape.dtype, "columns", shape.rows), {})[shape.columns] = shape
        groups.setdefault((shape.dtype, "rows", shape.columns), {})[shape.rows] = shape
    ordered = [(place, dict(sorted(shapes.items()))) for place, shapes in groups.items() if len(shapes) >= LEAST_SIZES]
    return [SpeedSweep(*place, tuple(shapes), *_series(list(shapes.values()))) for place, shapes in ordered]


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
            place = (shape.dtype, shape.rows, shape.columns)
            found[place] = Field(*place, shape.copy_gb_per_s, points, cases)
    return list(found.values())


_MOST_FIELDS = 6
"""Fields per dtype of which each is drawn."""


def chosen(fields: Sequence[Field]) -> list[Field]:
    """The fields to draw: all of a dtype that has few, else the first, the middle and the last of its sweep."""
    found: list[Field] = []
    for dtype in dict.fromkeys(field.dtype for field in fields):
        of = [field for field in fields if field.dtype == dtype]
        found += of if len(of) <= _MOST_FIELDS else [of[0], of[len(of) // 2], of[-1]]
    return found


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


def _series(shapes: Sequence[ShapeSpeed]) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Speeds, the device copy's first, and errors of all variants that have any."""
    figures = [{f.variant: f for f in shape.variants} for shape in shapes]
    names = list(dict.fromkeys(name for at_size in figures for name in at_size))
    speed = [Series(n, tuple(f[n].gb_per_s if n in f else None for f in figures)) for n in names]
    ulp = [Series(n, tuple(f[n].max_ulp if n in f else None for f in figures)) for n in names]
    copy = Series(COPY, tuple(shape.copy_gb_per_s for shape in shapes))
    return (copy, *filter(_has_figures, speed)), tuple(filter(_has_figures, ulp))


def _has_figures(series: Series) -> bool:
    return any(value is not None for value in series.values)
