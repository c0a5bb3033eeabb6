"""The cases and probes of a default report on one variant, step by step, so that a caller can end at any finding."""
# ruff: noqa: INP001 - beside scripts, not in a package

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.probes.registry import EXCLUSIVE, PROBES, Effort
from softcheck.run.plan import plan
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import CaseMeasurement, Session
from softcheck.run.size_limits import size_limits
from softcheck.variants.declaration import Declaration

APART = tuple(name for name in PROBES if name in EXCLUSIVE)
"""Probes that need the device to themselves."""

TOGETHER = tuple(name for name in PROBES if name not in EXCLUSIVE)


class Shown(NamedTuple):
    """A broken promise, and the case or trial that shows it."""

    where: str
    dtype: str
    violation: Violation


def run_cases(
    session: Session,
    spec: str,
    declaration: Declaration,
    cases: Sequence[Case],
    dtypes: Sequence[str],
    results: list[CaseMeasurement],
    *,
    in_order: bool = False,
) -> Iterator[list[Shown]]:
    """Yields the findings of each case that the declaration covers, and adds its measurement to ``results``.

    The order is a report's, or the given one. As in a report, rows wider than those that compile in time are left out.
    """
    tasks, _ = plan(cases, {spec: declaration}, dtypes)
    if in_order:
        places = {case.id: place for place, case in enumerate(cases)}
        tasks = tuple(sorted(tasks, key=lambda task: places[task[0].id]))
    for case, takers in tasks:
        if not takers or session.width_limit(spec, case.dtype, case.shape[1]) is not None:
            continue
        for result in session.run_case(case, takers):
            results.append(result)
            yield [Shown(case.id, case.dtype, violation) for violation in result.measurement.violations]


def run_probes(
    session: Session, spec: str, dtypes: Sequence[str], probes: Iterable[str], *, effort: Effort = "normal"
) -> Iterator[list[Shown]]:
    """Yields the findings of each probe in each dtype."""
    for probe in probes:
        for dtype in dtypes:
            probed = run_probe(session, ProbeTask(variant=spec, dtype=dtype, probe=probe, effort=effort))
            if probed is None:
                yield []
                continue
            findings = probed.conclusion.findings
            yield [Shown(f"{probed.case_id(shown.label)}/{dtype}", dtype, shown.violation) for shown in findings]


def limits(results: Sequence[CaseMeasurement], dtypes: Sequence[str]) -> list[Shown]:
    """Returns the sizes that are refused, which no case shows alone. A report makes no finding of them."""
    return [
        Shown(f"all cases/{dtype}", dtype, Violation(limit.kind, limit.words))
        for dtype in dtypes
        for limit in size_limits([result for result in results if result.case.dtype == dtype], [])
    ]


def refusals_without_limit(results: Sequence[CaseMeasurement], dtypes: Sequence[str]) -> list[Shown]:
    """Returns the refusals of a size that no limit explains, which are findings in a report."""
    found = []
    for dtype in dtypes:
        of_dtype = [result for result in results if result.case.dtype == dtype]
        known = size_limits(of_dtype, [])
        found += [
            Shown(result.case.id, dtype, violation)
            for result in of_dtype
            for violation in result.measurement.violations
            if violation.refusal is not None and not any(limit.covers(violation) for limit in known)
        ]
    return found
