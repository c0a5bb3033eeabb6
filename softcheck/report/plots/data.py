"""Contents of the plots, picked from results: series over columns or rows, points of a Pareto front, histograms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softcheck.report.model import Bin, Report, SpeedReport
from softcheck.report.speed_model import ShapeSpeed

Result = Report | SpeedReport

COPY = "device copy"


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
    """One variant: GB/s against its largest ULP error."""

    name: str
    gb_per_s: float
    max_ulp: float


@dataclass(frozen=True, slots=True)
class Field:
    """All variants of one dtype and shape, the fastest and most accurate of which make the Pareto front."""

    dtype: str
    rows: int
    columns: int
    points: tuple[Point, ...]
    judged_on: str
    """The input on which the errors were found."""
    name: str
    """Name of the file, without its ending."""


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
    """The points that no other beats in both: none is faster and at least as accurate, or more accurate and as fast.

    Slowest first, so that errors rise along it.
    """
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.gb_per_s, p.max_ulp)):
        if not best or point.max_ulp < best[-1].max_ulp:
            best.append(point)
    return best[::-1]


def fields(results: Iterable[Result]) -> list[Field]:
    """Returns a field per dtype and shape; if several results timed the same, the last result's.

    A report's errors are those over its corpora, and a benchmark's those on the timed input. The two are not mixed.
    """
    found: dict[str, Field] = {}
    for result in results:
        for shape in shapes_of([result]):
            if isinstance(result, Report):
                ulps = {v.name: v.max_ulp for v in result.variants if v.dtype == shape.dtype}
                judged_on, ending = f"{len(result.cases)} cases", "-report"
            else:
                ulps = {f.variant: f.max_ulp for f in shape.variants}
                judged_on, ending = "the timed input", ""
            points = [
                Point(f.variant, f.gb_per_s, ulp)
                for f in shape.variants
                if f.gb_per_s is not None and (ulp := ulps.get(f.variant)) is not None
            ]
            if points:
                name = f"pareto-{shape.dtype}-{shape.rows}x{shape.columns}{ending}"
                found[name] = Field(shape.dtype, shape.rows, shape.columns, tuple(points), judged_on, name)
    return list(found.values())


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
