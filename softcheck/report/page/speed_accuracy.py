"""Accuracy against speed: a chart for each dtype and shape, with the copy's line and the front beyond noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from softcheck.report import content, figures
from softcheck.report.charts import COPY, Field, Point, chosen, fields
from softcheck.report.model import Report, SpeedReport
from softcheck.report.page.axis import linear, logarithmic
from softcheck.report.page.svg import Chart, Mark

HEADING = ["variant", "GB/s [low, high]", "of copy", "max ULP", "findings", "on the front"]


@dataclass(frozen=True, slots=True)
class FieldDrawing:
    """A field as a chart, and the same figures as rows under ``HEADING``."""

    title: str
    chart: Markup
    caption: str
    rows: list[list[str]]


def contents(result: Report | SpeedReport) -> Mapping[str, object] | None:
    """The drawings of the shapes that were timed, of a long sweep three; None without any."""
    drawings = [_drawn(field) for field in chosen(fields(result))]
    return {"drawings": drawings, "heading": HEADING} if drawings else None


def _drawn(field: Field) -> FieldDrawing:
    title = f"{field.dtype} {field.rows}{figures.TIMES}{field.columns}"
    best = field.best
    rows = [
        [
            content.one_line(point.name),
            f"{figures.speed(point.gb_per_s)} [{figures.speed(point.low)}, {figures.speed(point.high)}]",
            # A file of a stranger's may hold a copy that took for ever.
            f"{point.gb_per_s / field.copy_gb_per_s:.0%}" if field.copy_gb_per_s > 0 else figures.NOT_MEASURED,
            figures.max_ulp_of_samples(point.max_ulp),
            "yes" if point.has_findings else figures.NOT_MEASURED if field.cases is None else "none",
            "yes" if point in best else "",
        ]
        for point in sorted(field.points, key=lambda point: -point.gb_per_s)
    ]
    return FieldDrawing(title, _chart(field, best, title), _caption(field), rows)


def _caption(field: Field) -> str:
    speed = (
        "Faster is to the right, more accurate is below; the lines through the marks are 95 % intervals of the speed."
    )
    if field.cases is None:
        return f"{speed} The errors are those of the timed input alone, so no kernel is chosen by them: a report judges more."
    return (
        f"{speed} Errors are the largest of {figures.plural(field.cases, 'case')}. A disc is on the front: no other kernel without "
        "findings is better in one figure, beyond noise, and no worse in the other. A ring is off the front. A cross has "
        "findings, by declared defects or not, and chooses nothing."
    )


def _chart(field: Field, best: Sequence[Point], title: str) -> Markup:
    top = _top(field.points)
    x = linear("GB/s, each element read once and written once", [field.copy_gb_per_s, *(p.high for p in field.points)])
    y = logarithmic("largest error in ULPs", [min(p.max_ulp, top) for p in field.points])
    chart = Chart(x, y, width=820, height=400)
    chart.rule(COPY, x=field.copy_gb_per_s)
    if len(best) > 1:
        chart.line([(point.gb_per_s, point.max_ulp) for point in best], "muted", step=True)
    names = []
    for point in field.points:
        cls = "fail" if point.has_findings else "series-1"
        height = min(point.max_ulp, y.high)
        chart.span((point.low, height), (point.high, height), cls)
        said = f"{content.one_line(point.name)}: {figures.speed(point.gb_per_s)} GB/s, {figures.max_ulp_of_samples(point.max_ulp)} ULP"
        mark: Mark = "cross" if point.has_findings else "circle" if point in best else "ring"
        chart.dot(point.gb_per_s, height, cls, mark=mark, title=said)
        beyond = f" ↑ {figures.max_ulp_of_samples(point.max_ulp)}" if point.max_ulp > y.high else ""
        names.append((point.gb_per_s, height, f"{content.one_line(point.name, 40)}{beyond}", cls))
    chart.label(names)
    return chart.svg(
        f"Accuracy against speed, {title}", f"{len(field.points)} variants; the table below holds the figures"
    )


def _top(points: Sequence[Point]) -> float:
    """The largest error that the axis shows: twice the largest of the kernels without findings, if there are any.

    Errors of broken kernels may be 10^40 ULPs, beside which all others would lie on one line.
    """
    right = [point.max_ulp for point in points if not point.has_findings]
    return 2 * max(right) if right else max(point.max_ulp for point in points)
