"""The row, step by step: what a kernel computed of a row, beside the exact values, with the step in which an error is born.

Without a script the section is a table of steps for each recording. The script plays them from the same figures, which the
page holds as data.
"""

import math
from collections.abc import Mapping

from markupsafe import Markup

from softcheck.report import content, figures
from softcheck.report.content import one_line
from softcheck.report.model import Report
from softcheck.report.page.svg import Axis, Chart, logarithmic
from softcheck.report.trace_text import left_out, number, row_lines, ulps
from softcheck.tracing.model import PHASES, Trace, TracedRow

_LEAST_SHOWN = 1e-4
"""ULPs at the foot of the chart."""
_MOST_SHOWN = 1e30
_FEWEST_STEPS = 3


def contents(result: Report | Trace) -> Mapping[str, object]:
    """The recordings of a trace, or of a report's traces, and what the script needs of them."""
    traces = (result,) if isinstance(result, Trace) else result.traces
    recordings = []
    for i, trace in enumerate(traces, 1):
        variant = one_line(f"{trace.variant}, {trace.dtype}")
        for j, row in enumerate(trace.rows, 1):
            anchor = f"steps-{i}-{j}"
            recordings.append(
                {
                    "anchor": anchor,
                    "title": f"{variant}, row {row.row}, {figures.plural(row.columns, 'column')}",
                    "case": one_line(trace.case),
                    "command": content.command(trace.command),
                    "row": row,
                    "lines": [*left_out(row), list(row_lines(row))[-1]],
                    "chart": _chart(row),
                    "data": _data(row, anchor, variant),
                }
            )
    if not recordings:
        return {}
    return {
        "recordings": recordings,
        "variants": list(dict.fromkeys(one_line(f"{trace.variant}, {trace.dtype}") for trace in traces)),
        "notes": list(dict.fromkeys(one_line(f"{t.variant}: {note}") for t in traces for note in t.notes)),
        "triton": ", ".join(dict.fromkeys(one_line(trace.triton) for trace in traces)),
    }


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
                "lanes": [
                    [lane.column, number(lane.value), number(lane.exact), ulps(lane.error), int(lane.masked)]
                    for lane in step.shown
                ],
                "hidden": step.lanes - len(step.shown),
            }
        )
    of_row = {"row": row.row, "columns": row.columns, "block": row.block}
    return {"id": anchor, "variant": variant, **of_row, "steps": steps}


def _chart(row: TracedRow) -> Markup | None:
    """The error so far and that of each step alone, over the steps; None where neither errs."""
    found = [error for step in row.steps for error in (step.error, step.own) if error]
    finite = [min(error, _MOST_SHOWN) for error in found if math.isfinite(error)]
    if not found or len(row.steps) < _FEWEST_STEPS:
        return None
    y = logarithmic("ULP", [_LEAST_SHOWN, 1.0, *finite])

    def height(error: float | None) -> float:
        return y.high if error is not None and math.isinf(error) else max(error or 0.0, y.low)

    chart = Chart(Axis("step", 0.5, len(row.steps) + 0.5), y, width=720, height=260)
    points = [(i + 0.5, height(step.error)) for i, step in enumerate(row.steps)]
    chart.line([*points, (len(points) + 0.5, points[-1][1])], "series-1", step=True)
    for i, step in enumerate(row.steps):
        if step.own:
            words = f"step {i + 1}, {PHASES[step.phase]}: {ulps(step.own)} ULP alone, {ulps(step.error)} so far"
            if i == row.born:
                chart.dot(i + 1, height(step.own), "fail", title=words)
            else:
                chart.dot(i + 1, height(step.own), "series-2", mark="ring", title=words)
    if row.born is not None:
        born = row.steps[row.born]
        chart.label([(row.born + 1, height(born.own), PHASES[born.phase], "fail")])
    return chart.svg("Errors by step", "a line for the error so far, dots for the error that each step adds")
