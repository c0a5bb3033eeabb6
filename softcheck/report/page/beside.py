"""Facts on the variants beside their figures: worst elements, properties that probes saw, kernels' arithmetic."""

from collections.abc import Mapping

from softcheck.report import content
from softcheck.report.model import Report


def contents(report: Report) -> Mapping[str, object] | None:
    """Lines by title, as the terminal prints them; None without any."""
    worst = ((result, content.worst_element(result)) for result in report.variants)
    lines = {
        "worst elements": [f"{content.subject(result)}: {text}" for result, text in worst if text],
        "probes": content.probe_lines(report),
        "arithmetic": [content.one_line(line) for line in content.arithmetic_lines(report)],
    }
    parts = [(title, found) for title, found in lines.items() if found]
    return {"parts": parts, "folded": True} if parts else None
