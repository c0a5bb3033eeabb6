"""A comparison of two results: the changes, worst first, and the slowdowns as intervals beside their limit."""

from collections.abc import Mapping

from markupsafe import Markup

from softcheck.report import compare_text, content
from softcheck.report.compare import Comparison, by_word
from softcheck.report.page.axis import Axis
from softcheck.report.page.svg import Chart

_LEAST, _MOST = 0.7, 1.5
"""Ends of the axis of slowdowns; beyond them a figure stands beside its dot."""

_MOST_ROWS = 40
"""Slowdowns that are drawn, those whose intervals reach highest."""

_ROW = 20
"""Pixels from one interval to the next."""


def contents(comparison: Comparison) -> Mapping[str, object] | None:
    """The changes by word, the chart of the largest slowdowns if speed was compared, and what could not be compared."""
    groups = [(word, [compare_text.cells(change) for change in of]) for word, of in by_word(comparison).items()]
    return {
        "closing": None,
        "heading": compare_text.HEADING[:-1],
        "groups": [(word, [row[:-1] for row in rows]) for word, rows in groups],
        "chart": _slowdowns(comparison),
        "remarks": compare_text.remarks(comparison),
    }


def beside_a_report(comparison: Comparison) -> Mapping[str, object] | None:
    """The same under the sentence that a comparison's own page begins with."""
    return {**(contents(comparison) or {}), "closing": compare_text.closing(comparison)}


def _slowdowns(comparison: Comparison) -> Markup | None:
    found = [(change, change.slowdown) for change in comparison.changes if change.slowdown is not None]
    if not found:
        return None
    if len(found) > _MOST_ROWS:
        found = sorted(found, key=lambda pair: -pair[1].high)[:_MOST_ROWS]
    limit = 1 + comparison.limits.max_slowdown
    low = max(min(0.95, *(slowdown.low for _, slowdown in found)), _LEAST)
    high = min(max(limit * 1.05, *(slowdown.high for _, slowdown in found)), max(limit * 1.05, _MOST))
    names = {
        -float(i): f"{content.one_line(change.variant, 28)}, {change.dtype} {change.what.removeprefix('speed ')}"
        for i, (change, _) in enumerate(found)
    }
    margin = 7 * max(map(len, names.values())) + 16
    chart = Chart(
        Axis("new time over old, each relative to its own run's copy", low, high),
        Axis("", -len(found) + 0.5, 0.5, named=names),
        width=480 + margin,
        height=_ROW * len(found) + 80,
        left=margin,
    )
    chart.rule("limit", x=limit, cls="fail")
    chart.rule("same", x=1.0, before=True)
    beyond = []
    for i, (change, slowdown) in enumerate(found):
        cls = {"REGRESSION": "fail", "AMBIGUOUS": "known"}.get(change.word, "series-1")
        chart.span((slowdown.low, -i), (slowdown.high, -i), cls)
        said = f"{slowdown.mid:.3f} [{slowdown.low:.3f}, {slowdown.high:.3f}]"
        chart.dot(slowdown.mid, -i, cls, title=f"{names[-float(i)]}: {said}")
        if not low <= slowdown.mid <= high:
            beyond.append((slowdown.mid, -float(i), f"{slowdown.mid:.3f}", cls))
    chart.label(beyond)
    return chart.svg("Slowdowns with their intervals", "the tables hold the figures")
