"""The row, step by step: what a kernel computed of a row, beside the exact values, with the step in which an error is born.

Without a script the section is a table of steps for each recording. The script plays them from the same figures, which the
page holds as data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from softcheck.report import content, figures
from softcheck.report.content import one_line
from softcheck.report.model import Report
from softcheck.report.page.axis import Axis, logarithmic
from softcheck.report.page.svg import Chart
from softcheck.report.trace_text import left_out, number, row_figures, row_lines, step_words, ulps
from softcheck.tracing.model import PHASES, Trace, TracedLane, TracedRow, TracedStep

_LEAST_SHOWN = 1e-4
"""ULPs at the foot of the chart."""
_MOST_SHOWN = 1e30
_FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class Recording:
    """One row of one call: its table, its chart, and the data that the script plays."""

    anchor: str
    title: str
    variant: str
    case: str
    command: str
    row: TracedRow
    heading: str
    steps: list["StepLine"]
    figures: list[tuple[str, str, str]]
    lines: list[str]
    chart: Markup | None
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step as a row of the table."""

    phase: str
    words: str
    value: str
    exact: str
    so_far: str
    alone: str
    dtype: str
    place: str
    source: str
    is_born: bool


def contents(report: Report) -> Mapping[str, object] | None:
    """The recordings of a report; None where it has none."""
    return of_traces(report.traces)


def of_traces(traces: Sequence[Trace]) -> Mapping[str, object] | None:
    """The recordings of traces, and what the script needs of them; None where there are none."""
    recordings = [
        _recording(trace, row, f"steps-{i + 1}-{j + 1}")
        for i, trace in enumerate(traces)
        for j, row in enumerate(trace.rows)
    ]
    if not recordings:
        return None
    return {
        "recordings": recordings,
        "variants": list(dict.fromkeys(recording.variant for recording in recordings)),
        "notes": list(dict.fromkeys(one_line(f"{t.variant}: {note}") for t in traces for note in t.notes)),
        "data": [recording.data for recording in recordings],
        "triton": ", ".join(dict.fromkeys(one_line(trace.triton) for trace in traces)),
    }


def _recording(trace: Trace, row: TracedRow, anchor: str) -> Recording:
    variant = one_line(f"{trace.variant}, {trace.dtype}")
    return Recording(
        anchor=anchor,
        title=f"{variant}, row {row.row}, {figures.plural(row.columns, 'column')}",
        variant=variant,
        case=one_line(trace.case),
        command=content.command(trace.command),
        row=row,
        heading=f"{row.status}; blocks of {figures.plural(row.block, 'lane')}",
        steps=[_line(step, is_born=i == row.born) for i, step in enumerate(row.steps)],
        figures=[(title, number(figure.kernel), number(figure.exact)) for title, figure in row_figures(row)],
        lines=[*left_out(row), list(row_lines(row))[-1]],
        chart=_chart(row),
        data=_data(row, anchor, variant),
    )


def _line(step: TracedStep, *, is_born: bool) -> StepLine:
    return StepLine(
        phase=PHASES[step.phase],
        words=step_words(step),
        value=number(step.value),
        exact=number(step.exact),
        so_far=ulps(step.error),
        alone=ulps(step.own),
        dtype=step.dtype,
        place=f"{one_line(step.kernel)}:{step.line}" if step.line is not None else one_line(step.kernel),
        source=one_line(step.source),
        is_born=is_born,
    )


def _data(row: TracedRow, anchor: str, variant: str) -> dict[str, object]:
    maximum = total = figures.NOT_MEASURED
    steps = []
    for step in row.steps:
        if step.lanes == 1 and step.phase in {"block_maximum", "running_maximum"}:
            maximum = number(step.value)
        if step.lanes == 1 and step.phase in {"block_sum", "running_sum"}:
            total = number(step.value)
        steps.append(
            {
                "program": ", ".join(map(str, step.program)),
                "columns": step.columns,
                "maximum": maximum,
                "sum": total,
                "lanes": [_lane(lane) for lane in step.shown],
                "hidden": step.lanes - len(step.shown),
            }
        )
    return {
        "id": anchor,
        "variant": variant,
        "row": row.row,
        "columns": row.columns,
        "block": row.block,
        "steps": steps,
    }


def _lane(lane: TracedLane) -> list[str | int | None]:
    """Column, value, exact value, error, and 1 if the lane is masked."""
    return [lane.column, number(lane.value), number(lane.exact), ulps(lane.error), int(lane.masked)]


def _chart(row: TracedRow) -> Markup | None:
    """The error so far and that of each step alone, over the steps; None where neither errs."""
    found = [error for step in row.steps for error in (step.error, step.own) if error]
    finite = [min(error, _MOST_SHOWN) for error in found if math.isfinite(error)]
    if not found or len(row.steps) < _FEWEST_STEPS:
        return None
    y = logarithmic("ULP", [_LEAST_SHOWN, 1.0, *finite])
    x = Axis("step", 0.5, len(row.steps) + 0.5)
    chart = Chart(x, y, width=720, height=260)
    so_far = [_on(y, step.error) for step in row.steps]
    points = [(i + 0.5, error) for i, error in enumerate(so_far)]
    chart.line([*points, (len(so_far) + 0.5, so_far[-1])], "series-1", step=True)
    for i, step in enumerate(row.steps):
        if step.own:
            words = f"step {i + 1}, {PHASES[step.phase]}: {ulps(step.own)} ULP alone, {ulps(step.error)} so far"
            is_born = i == row.born
            chart.dot(
                i + 1,
                _on(y, step.own),
                "fail" if is_born else "series-2",
                mark="circle" if is_born else "ring",
                title=words,
            )
    if row.born is not None:
        born = row.steps[row.born]
        chart.label([(row.born + 1, _on(y, born.own), PHASES[born.phase], "fail")])
    return chart.svg("Errors by step", "a line for the error so far, dots for the error that each step adds")


def _on(axis: Axis, error: float | None) -> float:
    return axis.high if error is not None and math.isinf(error) else max(error or 0.0, axis.low)
