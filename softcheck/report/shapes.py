"""Shapes of the calls behind one row of a report, by what they showed."""

from collections.abc import Callable, Iterable, Sequence

from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.judge.measurement import Measurement
from softcheck.probes.judged_shapes import REFUSED, by_kind, together
from softcheck.run.probing import ProbeResult


def shapes_of(
    measured: Sequence[tuple[Case, Measurement]],
    probed: Iterable[ProbeResult],
    is_limited: Callable[[Violation, str], bool],
) -> dict[str, str]:
    """Shapes of cases, as far as their rows were run, and of trials over sizes and shapes.

    A violation of a case id, or a probe's, that ``is_limited`` is a refusal beyond a limit of sizes.
    """
    failing: dict[str, list[tuple[int, int]]] = {}
    for case, measurement in measured:
        for violation in measurement.violations:
            kind = REFUSED if is_limited(violation, case.id) else violation.kind
            failing.setdefault(kind, []).append((measurement.rows, case.shape[1]))
    parts = [by_kind(((m.rows, case.shape[1]) for case, m in measured), failing.items())]
    for result in probed:
        limited = {
            shown.violation.kind
            for shown in result.conclusion.findings
            if is_limited(shown.violation, result.case_id(shown.label))
        }
        of_probe = result.conclusion.judged_shapes.items()
        parts += [{REFUSED if kind in limited else kind: text} for kind, text in of_probe]
    return together(parts)
