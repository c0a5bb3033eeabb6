"""Contents of the plots, picked from results: series over columns or rows, points of a Pareto front, histograms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softcheck.report.model import Bin, Report, SpeedReport
from softcheck.report.speed_model import ShapeSpeed, SpeedFigures
from softcheck.speed.statistics import MARGIN

Result = Report | SpeedReport

COPY = "device copy"

_MOST_FIELDS = 6
"""Fields per dtype of which each is drawn."""

SAME_ULP = 0.01
"""ULPs by which two maxima may differ and still count as the same."""


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of one variant along an axis, in ascending order; shapes without a figure are left out."""

    name: str
    at: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Shapes of one dtype that differ in one dimension only, at least two of them."""

    dtype: str
    axis: str
    """``columns`` or ``rows``, whichever varies."""
    fixed: int
    """The other dimension."""
    speed: tuple[Series, ...]
    ulp: tuple[Series, ...]

    @property
    def name(self) -> str:
        """Part of a file name: ``float16-columns-4096-rows``."""
        return f"{self.dtype}-{self.axis}-{self.fixed}-{'rows' if self.axis == 'columns' else 'columns'}"


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
    name: str
    """Name of the file, without its ending."""

    @property
    def judged_on(self) -> str:
        """The input on which the errors were found, in words."""
        return "the timed input" if self.cases is None else f"{self.cases} cases"

    @property
    def best(self) -> list[Point]:
        """The front of the variants without findings; empty if the errors are those of the timed input alone.

        A kernel that is accurate on the timed input may be far off elsewhere, so that input chooses none.
        """
        return [] if self.cases is None else front([point for point in self.points if not point.has_findings])


def shapes_of(results: Iterable[Result]) -> list[ShapeSpeed]:
    """All timed shapes, in order."""
    return [s for r in results for s in (r.shapes if isinstance(r, SpeedReport) else r.timings)]


def sweeps(shapes: Sequence[ShapeSpeed]) -> list[Sweep]:
    """Every series of at least two shapes that share a dtype and one dimension."""
    groups: dict[tuple[str, str, int], list[ShapeSpeed]] = {}
    for shape in shapes:
        groups.setdefault((shape.dtype, "columns", shape.rows), []).append(shape)
        groups.setdefault((shape.dtype, "rows", shape.columns), []).append(shape)
    found = []
    for (dtype, axis, fixed), members in groups.items():
        by_place = {getattr(shape, axis): shape for shape in members}
        if len(by_place) > 1:
            ordered = [by_place[at] for at in sorted(by_place)]
            found.append(Sweep(dtype, axis, fixed, _speed(ordered, axis), _ulp(ordered, axis)))
    return found


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


def fields(results: Iterable[Result]) -> list[Field]:
    """Returns a field per dtype and shape; if several results timed the same, the last result's.

    The errors of a report are the largest of all its cases. A benchmark takes them from the last report of the same
    device and dtype among the results, else from the timed input.
    """
    given = list(results)
    reports = {
        (report.environment.device, row.dtype): report
        for report in given
        if isinstance(report, Report)
        for row in report.variants
    }
    found: dict[str, Field] = {}
    for result in given:
        for shape in shapes_of([result]):
            report = result if isinstance(result, Report) else reports.get((result.environment.device, shape.dtype))
            points = tuple(filter(None, (_point(figures, shape, report) for figures in shape.variants)))
            if points:
                ending = "-report" if isinstance(result, Report) else ""
                name = f"pareto-{shape.dtype}-{shape.rows}x{shape.columns}{ending}"
                cases = None if report is None else len(report.cases)
                found[name] = Field(shape.dtype, shape.rows, shape.columns, shape.copy_gb_per_s, points, cases, name)
    return list(found.values())


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


def histograms(results: Iterable[Result]) -> dict[str, dict[str, tuple[Bin, ...]]]:
    """Returns bins by dtype and variant; if several results judged the same, the last result's."""
    found: dict[str, dict[str, tuple[Bin, ...]]] = {}
    for result in results:
        if isinstance(result, Report):
            for row in result.variants:
                if row.histogram:
                    found.setdefault(row.dtype, {})[row.name] = row.histogram
    return found


def _speed(shapes: list[ShapeSpeed], axis: str) -> tuple[Series, ...]:
    copy = Series(COPY, tuple(getattr(s, axis) for s in shapes), tuple(s.copy_gb_per_s for s in shapes))
    return (copy, *_series([[(getattr(s, axis), f.variant, f.gb_per_s) for f in s.variants] for s in shapes]))


def _ulp(shapes: list[ShapeSpeed], axis: str) -> tuple[Series, ...]:
    return _series([[(getattr(s, axis), f.variant, f.max_ulp) for f in s.variants] for s in shapes])


def _series(figures: list[list[tuple[int, str, float | None]]]) -> tuple[Series, ...]:
    found: dict[str, list[tuple[int, float]]] = {}
    for at, name, value in (figure for shape in figures for figure in shape):
        if value is not None:
            found.setdefault(name, []).append((at, value))
    return tuple(Series(n, tuple(a for a, _ in f), tuple(v for _, v in f)) for n, f in found.items())
