"""Construction of the report model from a run's measurements."""

import sys
from collections.abc import Sequence
from functools import cached_property

import msgspec

from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import weaker_by_design
from softcheck.judge.measurement import merge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.outcome import Coverage, RandomRows, coverage_of
from softcheck.report import notes, probes
from softcheck.report.causes import causes_of, proposal
from softcheck.report.findings import (
    FindingSource,
    domain_case,
    domain_findings,
    shapes_of,
    whole_set,
    with_domain,
    with_figures,
    with_places,
    without_repetition,
    witness_of,
)
from softcheck.report.model import (
    CaseResult,
    Cause,
    CopyBaseline,
    Finding,
    Report,
    ShapeSpeed,
    Stage,
    VariantResult,
    Verdict,
    Witness,
)
from softcheck.report.notes import SizeLimits
from softcheck.report.reproduce import environment, in_order_command, probe_command, reproduce_command
from softcheck.report.speed import shape_speed
from softcheck.run.model import GivenUp, Run
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import CaseMeasurement
from softcheck.variants.declaration import Declaration, KnownDefect


def build(run: Run, *, command: Sequence[str], corpora: Sequence[str] = ()) -> Report:
    """Returns the report of a run; ``command`` is what the user typed, ``corpora`` are the named ones, for reproducing commands."""
    timings = tuple(shape_speed(samples, run.declarations) for samples in run.speeds)
    rows = [_Row(run, name, dtype, corpora, timings) for name in run.options.variants for dtype in run.options.dtypes]
    results = [row.result() for row in rows]
    return Report(
        environment=environment(run.ready, run.options.seed, command),
        variants=with_places(results),
        cases=_cases(run),
        exhaustive=tuple(whole_set(result) for result in run.exhausted if result.refused is None),
        speed=tuple(
            CopyBaseline(
                dtype=s.dtype,
                rows=s.rows,
                columns=s.columns,
                gb_per_s=s.copy_gb_per_s,
                torch_gb_per_s=s.torch_gb_per_s or 0.0,
            )
            for s in timings
        ),
        timings=timings,
        stages=tuple(Stage(name=name, seconds=seconds) for name, seconds in run.stages.items()),
        interrupted=run.interrupted,
        errors=tuple(run.errors),
        calls=notes.calls({name: run.facts[name] for name in run.declarations if name in run.facts}),
        notes=tuple(notes.of_run(run, results, [note for row in rows for note in row.notes()])),
        seconds=run.seconds,
    )


def exit_code(report: Report) -> int:
    """0 clean; 1 a promise was broken; 2 a variant or a case could not be judged at all; 3 nothing was run.

    Under ``--strict-declarations`` a declared defect that does not show is a broken promise too.
    """
    if report.errors:
        return 2
    if not any(row.was_run or row.verdict == "fail" for row in report.variants):
        return 2 if any(row.verdict == "error" for row in report.variants) else 3
    if any(row.verdict == "error" and not row.was_run for row in report.variants):
        return 2
    return 1 if any(row.verdict in {"fail", "error"} for row in report.variants) else 0


class _Row:
    """Everything about one variant in one dtype."""

    def __init__(
        self, run: Run, name: str, dtype: str, corpora: Sequence[str], timings: Sequence[ShapeSpeed] = ()
    ) -> None:
        self.timings = timings
        self.run = run
        self.name = name
        self.dtype = dtype
        self.corpora = corpora
        own = [r for r in run.results if r.variant == name and r.case.dtype == dtype]
        self.probed = [p for p in run.probed if p.task.variant == name and p.task.dtype == dtype]
        self.declaration = run.declarations.get(name, Declaration())
        self.source = FindingSource(name, dtype, self.declaration, run.ready.backend, run.options.seconds_per_call)
        self.limits = SizeLimits(run, self.source, own, self.probed)
        self.results = [r for r in own if r.measurement.skipped is None and not self._is_beyond(r)]
        self.unable = [r.measurement.skipped for r in own if r.measurement.skipped is not None]
        domains = [e for e in run.exhausted if e.variant == name and e.domain.dtype == dtype]
        self.refused = [e.refused for e in domains if e.refused is not None]
        self.exhausted = [e for e in domains if e.refused is None]
        self.measured = [(r.case, r.measurement) for r in self.results]

    def _is_beyond(self, result: CaseMeasurement) -> bool:
        """True if a case shows nothing but a refusal of its size."""
        found = result.measurement.violations
        return bool(found) and all(self.limits.cover(v, result.case.id) for v in found)

    def result(self) -> VariantResult:
        if self.name in self.run.refused:
            return self._unjudged("error", self.run.refused[self.name])
        declaration = self.run.declarations.get(self.name)
        if declaration is None:
            return self._unjudged("error", "not run: interrupted")
        if self.dtype not in declaration.dtypes:
            return self._unjudged("unsupported", f"declares {', '.join(declaration.dtypes)}, not {self.dtype}")
        probes_run = probes.trials_of(self.probed)
        findings = self._findings
        # Probes that launch no kernel, or only read it, say nothing of one that can't be run.
        if not (findings or self.results or self.exhausted) and (self.unable or not any(probes_run.values())):
            is_cut_short = self.run.interrupted or bool(self.run.errors)
            return self._unjudged("error" if is_cut_short else "unsupported", self._why_nothing())
        verdict, reason = self._verdict(declaration, findings)
        together = merge(m for _, m in self.measured) if self.measured else None
        regimes = next((p.conclusion.regimes for p in self.probed if p.conclusion.regimes), ())
        shapes = (shape for shape in self.timings if shape.dtype == self.dtype)
        speed = next((f for shape in shapes for f in shape.variants if f.variant == self.name), None)
        result = VariantResult(
            name=self.name,
            dtype=self.dtype,
            verdict=verdict,
            operation=declaration.operation,
            reason=reason,
            cases_run=len(self.results),
            cases_unable=len(self.unable),
            probes_run=probes_run,
            trials_planned=sum(probed.conclusion.planned for probed in self.probed),
            trials_cut=sum(probed.conclusion.cut for probed in self.probed),
            properties=probes.properties_of(self.probed),
            arithmetic=probes.arithmetic_of(self.probed),
            sampled=RandomRows.total(probed.conclusion.sampled for probed in self.probed),
            regimes=len(regimes) or None,
            seen_regimes=tuple(msgspec.structs.replace(regime, paths=()) for regime in regimes),
            judged_shapes=shapes_of(self.measured, self.probed, self.limits.cover),
            coverage=self.coverage,
            not_judged=probes.not_judged(self.run.at_defaults.get(self.name, ()), declaration.computed, self.probed),
            holds=self.limits.holds,
            weaker_contract=weaker_by_design(declaration.arithmetic, self.dtype),
            witness=self._witness(declaration),
            findings=tuple(findings),
            causes=self._causes,
            gb_per_s=speed.gb_per_s if speed else None,
            tflop_per_s=speed.tflop_per_s if speed else None,
            speed_vs_torch=speed.times_faster.mid if speed and speed.times_faster else None,
            seconds=sum(r.seconds for r in self.results)
            + sum(p.seconds for p in self.probed)
            + sum(e.seconds for e in self.exhausted),
        )
        if together is not None:
            result = with_figures(result, together)
        elif self.exhausted:
            result = with_domain(result, self.exhausted[0])
        return without_repetition(result)

    def _unjudged(self, verdict: Verdict, reason: str) -> VariantResult:
        return VariantResult(name=self.name, dtype=self.dtype, verdict=verdict, reason=reason)

    def _why_nothing(self) -> str:
        if self.run.interrupted:
            return "not run: interrupted"
        if self.run.errors:
            return "not run: no selected case or probe could be carried out"
        skipped = [
            *self.refused,
            *self.unable,
            *self.limits.notes(),
            *(reason for probe in self.probed for reason in probe.conclusion.skipped),
        ]
        return f"not run: {skipped[0]}" if skipped else "no selected case lies within what it declares"

    @cached_property
    def _findings(self) -> list[Finding]:
        backend, own = self.run.ready.backend, (self.name, self.dtype)
        found = [*probes.findings(self.probed, self.source, self.limits.cover), *self.limits.findings()]
        for case, measurement in self.measured:
            again = reproduce_command(self.name, case, backend, self.corpora)
            is_limit = self.limits.cover
            found += [
                self.source.finding(v, case.id, again) for v in measurement.violations if not is_limit(v, case.id)
            ]
        # Crashes that other calls caused are symptoms of a write out of bounds, where one was found.
        if not any(f.kind is FindingKind.OUT_OF_BOUNDS_WRITE for f in found):
            for blame in self.run.blames:
                if (blame.variant, blame.dtype) == own:
                    again = in_order_command(blame.command, backend, self.corpora)
                    found.append(self.source.finding(blame.violation, blame.case, again))
        found += [f for e in self.exhausted for f in domain_findings(e, self.run.ready, of_row=not self.results)]
        found += [self._not_run(each) for each in self.run.given_up if (each.variant, each.dtype) == own]
        # Unexplained findings come first, then by kind; of each kind the smallest input, which is the easiest to
        # examine.
        size = {case.id: case.shape[0] * case.shape[1] for case, _ in self.measured}
        return sorted(
            found, key=lambda f: (f.known is not None, f.kind, f.case not in size, size.get(f.case, 0), f.case)
        )

    def _not_run(self, given_up: GivenUp) -> Finding:
        """Returns one finding for everything that was not run."""
        cases, probed, options = given_up.cases, given_up.probes, self.run.options
        if cases:
            case_id, again = cases[0].id, reproduce_command(self.name, cases[0], self.source.backend, self.corpora)
        else:
            task = ProbeTask(
                variant=self.name, dtype=self.dtype, probe=probed[0], effort=options.effort, seed=options.seed
            )
            case_id, again = f"probe/{probed[0]}", probe_command(task, self.source.backend)
        message = f"given up: {given_up.over.why}; {len(cases)} cases and {len(probed)} probes were not run, this one the first; "
        violation = Violation(given_up.over.kind, f"{message}expected an output of each", len(cases) + len(probed))
        return self.source.finding(violation, case_id, again, not_run=True)

    @cached_property
    def _causes(self) -> tuple[Cause, ...]:
        if self.exhausted and not self.results:
            return ()
        fact = self.run.facts.get(self.name)
        return causes_of(
            self._findings,
            [case for case, _ in self.measured],
            {case.id: measurement.rows for case, measurement in self.measured},
            operation=self.declaration.operation,
            weaker=self._fitting,
            computing="" if fact is None else fact.computes,
            parameters=self.declaration.computed.parameters,
            dtype=self.dtype,
        )

    @cached_property
    def _fitting(self) -> Arithmetic | None:
        return notes.fitting_arithmetic(self.measured, self.probed, self.declaration, self.dtype)

    @property
    def coverage(self) -> Coverage | None:
        """Lines that calls have run, in any dtype: a process tells each line once."""
        return coverage_of(probed.conclusion for probed in self.run.probed if probed.task.variant == self.name)

    def _verdict(self, declaration: Declaration, findings: list[Finding]) -> tuple[Verdict, str | None]:
        if any(f.known is None for f in findings):
            return "fail", None
        coverage, required = self.coverage, self.run.options.require_coverage
        if required and (coverage is None or coverage.percent < required):
            return "error", notes.too_little_coverage(coverage, required)
        unseen = [d for d in self._unseen(declaration) if d.always]
        if unseen and self.run.options.strict_declarations:
            return "error", notes.unseen_defect(unseen[0])
        return ("known", None) if findings else ("pass", None)

    def notes(self) -> list[tuple[str, str]]:
        """Remarks on this row beside its figures, each with its subject."""
        declaration = self.run.declarations.get(self.name)
        if declaration is None or self.dtype not in declaration.dtypes:
            return []
        said = (
            *self.limits.notes(),
            proposal(self._causes),
            notes.beyond_the_standard(self.measured, declaration, self.dtype),
            notes.fitting_declaration(self._fitting),
            *(notes.unseen_defect(defect) for defect in self._unseen(declaration)),
        )
        return [(f"{self.name}, {self.dtype}", text) for text in said if text is not None]

    def _unseen(self, declaration: Declaration) -> list[KnownDefect]:
        """Declared defects that did not show although they had their chance."""
        return [defect for defect in declaration.known_defects if self._is_unseen(defect)]

    def _is_unseen(self, defect: KnownDefect) -> bool:
        """True if a declared defect did not show although every edge case, or every probe that it names, could show it."""
        options = self.run.options
        if self.run.interrupted or not defect.applies(self.dtype, self.run.ready.backend):
            return False
        judged = [(c.id, m) for c, m in self.measured] + [(e.case_id, e.measurement) for e in self.exhausted]
        shown = [(v, case_id) for case_id, m in judged for v in m.violations] + probes.shown(self.probed)
        if any(defect.explains(*each) for each in shown):
            return False
        if probes.only_probes_show(defect):
            return probes.had_their_chance(defect, self.probed, quick=options.effort == "quick")
        return options.whole_corpus and any(defect.may_show(case.id) for case, _ in self.measured)

    def _witness(self, declaration: Declaration) -> Witness | None:
        candidates = [(c, m.max_ulp) for c, m in self.measured if m.max_ulp is not None]
        if not candidates:
            return None
        case, worst = max(candidates, key=lambda item: item[1].value)
        row = case.bits(worst.row + 1)[worst.row]
        computed = declaration.computed_on(case, worst.row + 1).of_rows(slice(worst.row, worst.row + 1))
        return witness_of(worst, case.id, row, case.format, computed, declaration)


def _cases(run: Run) -> tuple[CaseResult, ...]:
    builtin = {case.digest for case in load(builtin_names())}
    seen: dict[str, CaseMeasurement] = {}
    for result in run.results:
        if result.measurement.skipped is None:
            seen.setdefault(result.case.id, result)
    domains = {each.case_id: domain_case(each) for each in run.exhausted if each.refused is None and not seen}
    return *domains.values(), *(
        CaseResult(
            id=case_id,
            family=result.case.family,
            shape=result.case.shape,
            rows_run=result.measurement.rows,
            definition=None if result.case.digest in builtin else result.case,
        )
        for case_id, result in sorted(seen.items())
    )


def command_line() -> list[str]:
    """The command that the user typed, with the program's own name in place of its path."""
    return ["softcheck", *sys.argv[1:]]
