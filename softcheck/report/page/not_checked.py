"""The limits of a report: probes, dtypes, cases and sizes that were not run, and the reason for each."""

from collections.abc import Iterable, Mapping

from oracles.formats import FORMATS
from softcheck.probes.registry import PROBES
from softcheck.report import content
from softcheck.report.model import Report


def contents(report: Report) -> Mapping[str, object] | None:
    """Lines by title; a report says at least of what its maxima are."""
    ran = {name for result in report.variants for name, trials in result.probes_run.items() if trials}
    judged = {result.dtype for result in report.variants}
    lines = {
        "in general": _in_general(report),
        "dtypes": _joined(dtype for dtype in FORMATS if dtype not in judged),
        "probes without a trial": _joined(name for name in PROBES if name not in ran),
        "unsupported or in error": [
            f"{content.subject(r)}: {r.verdict}: {content.one_line(r.reason)}" for r in report.variants if r.reason
        ],
        "cases that could not be run": [content.one_line(error) for error in report.errors],
        "notes of the run": [content.one_line(note) for note in report.notes],
    }
    return {"parts": [(title, found) for title, found in lines.items() if found], "folded": False}


def _joined(names: Iterable[str]) -> list[str]:
    """The names as one line; none without names."""
    return [line] if (line := ", ".join(names)) else []


def _in_general(report: Report) -> list[str]:
    said = []
    if report.interrupted:
        said.append("the run was ended early; the figures are of what had been measured by then")
    if report.environment.backend == "interpreter":
        said.append("the kernels ran under Triton's interpreter: the GPU's arithmetic and speed were not judged")
    if any(result.ulp_is == "at least" and result.max_ulp is not None for result in report.variants):
        said.append("maxima with the sign ≥ are those of the inputs that were run; other inputs may show larger ones")
    if not report.timings and not report.speed:
        said.append("no speed was measured")
    return said
