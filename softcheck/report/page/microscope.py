"""The row, step by step: what a kernel computed of a row, beside the exact values, with the step in which an error is born.

Without a script the section is a table of steps for each recording. The script plays them from the same figures, which the
page holds as data.
"""

from collections.abc import Mapping

from softcheck.report import content, figures
from softcheck.report.content import one_line
from softcheck.report.model import Report
from softcheck.report.trace_text import left_out, number, row_lines, ulps
from softcheck.tracing.model import Trace, TracedRow


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
