"""The traces of a report: the row that shows each variant at its worst, recorded step by step."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from softcheck.cases.case import GENERATED, Case
from softcheck.contract import FindingKind
from softcheck.errors import SoftcheckError, WithoutKernelError
from softcheck.report import content
from softcheck.report.model import Report, VariantResult
from softcheck.report.reproduce import command
from softcheck.run.model import Events
from softcheck.run.session import Session
from softcheck.run.tracing import trace
from softcheck.tracing.model import Trace
from softcheck.variants.recognised import Recognised

MOST_COLUMNS = 2**14
"""Widest row that a report traces by itself: a reader looks at few columns, and the wait is short."""


def with_traces(
    report: Report,
    cases: Iterable[Case],
    events: Events,
    corpora: Sequence[str] = (),
    facts: Mapping[str, Recognised] = MappingProxyType({}),
) -> Report:
    """The report with a trace of each variant that launches Triton kernels, recorded in a process of its own; a note names the others."""
    known = {case.id: case for case in cases} | {c.id: c.definition for c in report.cases if c.definition is not None}
    traces: list[Trace] = []
    untraced: list[str] = []
    without: list[str] = []
    with contextlib.closing(Session("interpreter", jobs=1)) as session:
        session.facts.update(facts)
        for name, results in _by_variant(report).items():
            shown = next((found for result in results if (found := _worst(result, known))), None)
            if shown is None:
                untraced.append(f"{name}: no row of a saved case up to {MOST_COLUMNS} columns shows an error")
                continue
            events.stage(f"tracing {name}")
            case, row, column = shown
            try:
                traces.append(
                    trace(session, name, case, rows=(row,), focus=column, command=_command(name, case, row, corpora))
                )
            except WithoutKernelError:
                without.append(content.one_line(name))
            except SoftcheckError as error:
                untraced.append(f"{name}: {error}")
    notes = [f"not traced: {content.one_line(said)}" for said in untraced]
    notes += [f"not traced, since they launch no Triton kernel: {', '.join(without)}"] if without else []
    return msgspec.structs.replace(report, traces=tuple(traces), notes=(*report.notes, *notes))


def _command(name: str, case: Case, row: int, corpora: Sequence[str]) -> str:
    """The command that records a row again; of a case that no corpus holds, the row's own bits."""
    if case.family == GENERATED and case.rows is not None:
        return command("trace", name, bits=case.rows[row], dtype=case.dtype)
    return command("trace", name, case=case.id, corpus=tuple(corpora), row=str(row), dtype=case.dtype)


def _by_variant(report: Report) -> dict[str, Sequence[VariantResult]]:
    """The results of each variant that was run, those with findings of their own first, then by error over bound."""
    found: dict[str, list[VariantResult]] = {}
    for result in report.variants:
        if result.was_run:
            found.setdefault(result.name, []).append(result)
    for results in found.values():
        results.sort(key=lambda r: (all(f.known is not None for f in r.findings), -(r.max_bound_share or 0.0)))
    return dict(found)


def _worst(result: VariantResult, cases: dict[str, Case]) -> tuple[Case, int, int | None] | None:
    """The case, the row and the column of a result's worst element, or of a finding where that can't be traced."""
    # An error in ULPs shows more of a kernel than a row of special values.
    findings = sorted(result.findings, key=lambda f: f.kind is not FindingKind.ULP_EXCEEDS_BOUND)
    places = [(f.case, f.row, f.column) for f in findings if f.row is not None]
    if result.witness is not None:
        places.insert(0, (result.witness.case, result.witness.row, result.witness.column))
    for name, row, column in places:
        case = cases.get(name)
        if case is not None and row is not None and 0 < case.shape[1] <= MOST_COLUMNS:
            return case, row, column
    return None
