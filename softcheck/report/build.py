"""Draws the report model from what a run measured."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

from oracles import ball
from oracles.formats import FORMATS, decode
from softcheck import __version__
from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import Violation
from softcheck.judge.histogram import merge, percentile
from softcheck.judge.measurement import Extreme
from softcheck.judge.ulp import LARGEST
from softcheck.report import probes
from softcheck.report.bins import octaves
from softcheck.report.model import (
    CaseResult,
    CopyBaseline,
    Environment,
    Finding,
    Report,
    Stage,
    VariantResult,
    Verdict,
    Witness,
)
from softcheck.report.reproduce import finding_id, reproduce_command
from softcheck.report.speed_build import gb_per_s, shape_speed
from softcheck.report.speed_model import ShapeSpeed, SpeedFigures
from softcheck.run.check import Run, explanation
from softcheck.run.protocol import Ready
from softcheck.run.session import Result, rows_to_run
from softcheck.variants.declaration import Declaration, KnownDefect


def build(run: Run, *, command: Sequence[str], corpora: Sequence[str] = ()) -> Report:
    """The report of a run. ``command`` is what the user typed; ``corpora`` the ones named, for reproducing commands."""
    timings = tuple(shape_speed(samples, run.declarations) for samples in run.speeds)
    rows = [
        _Row(run, name, dtype, corpora, timings).result()
        for name in run.options.variants
        for dtype in run.options.dtypes
    ]
    return Report(
        environment=environment(run.ready, run.options.seed, command),
        variants=tuple(rows),
        cases=_cases(run),
        speed=tuple(
            CopyBaseline(
                dtype=s.dtype,
                rows=s.rows,
                columns=s.columns,
                gb_per_s=s.copy_gb_per_s,
                torch_gb_per_s=gb_per_s(s.dtype, s.rows, s.columns, s.torch_seconds.mid),
            )
            for s in timings
        ),
        timings=timings,
        stages=tuple(Stage(name=name, seconds=seconds) for name, seconds in run.stages.items()),
        interrupted=run.interrupted,
        errors=tuple(run.errors),
        notes=(*_truncation_note(run), *run.notes, *probes.skip_notes(run), *_not_timed(run)),
        seconds=run.seconds,
    )


def exit_code(report: Report) -> int:
    """0 clean; 1 a promise was broken; 2 a variant or a case could not be judged at all; 3 nothing was run.

    A declared defect that no longer shows is a broken promise too.
    """
    if report.errors:
        return 2
    if not any(row.was_run for row in report.variants):
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
        self.results = [r for r in run.results if r.variant == name and r.case.dtype == dtype]
        self.probed = [p for p in run.probed if p.task.variant == name and p.task.dtype == dtype]
        self.measured = [(r.case, r.measurement) for r in self.results]

    def result(self) -> VariantResult:
        if self.name in self.run.refused:
            return VariantResult(name=self.name, dtype=self.dtype, verdict="error", reason=self.run.refused[self.name])
        declaration = self.run.declarations.get(self.name)
        if declaration is None:
            return VariantResult(
                name=self.name,
                dtype=self.dtype,
                verdict="error",
                reason="not run: interrupted",
            )
        if self.dtype not in declaration.dtypes:
            return VariantResult(
                name=self.name,
                dtype=self.dtype,
                verdict="unsupported",
                reason=f"declares {', '.join(declaration.dtypes)}",
            )
        probes_run = probes.trials_of(self.probed)
        if not self.results and not any(probes_run.values()):
            return VariantResult(
                name=self.name,
                dtype=self.dtype,
                verdict="error" if self.run.interrupted or self.run.errors else "unsupported",
                reason=self._why_nothing(),
            )
        findings = self._findings(declaration)
        verdict, reason = self._verdict(declaration, findings)
        figures = [m for _, m in self.measured]
        elements = sum(m.elements for m in figures)
        histogram = merge(m.histogram for m in figures)
        worst = self._worst()
        judged = elements > 0
        speed = self._speed()
        return VariantResult(
            name=self.name,
            dtype=self.dtype,
            verdict=verdict,
            reason=reason,
            cases_run=len(self.results),
            probes_run=probes_run,
            properties=probes.properties_of(self.probed),
            elements=elements,
            max_ulp=worst[1].value if worst else None,
            mean_ulp=min(sum(m.ulp_sum for m in figures), LARGEST) / elements if judged else None,
            p999_ulp=percentile_of(histogram, worst[1] if worst else None),
            witness=_witness(*worst, declaration) if worst else None,
            max_ulp_ftz=_largest(m.max_ulp_ftz for m in figures),
            max_bound_share=_largest(m.max_bound_share.value if m.max_bound_share else None for m in figures),
            flushed=sum(m.flushed for m in figures) if judged else None,
            max_sum_deviation=_largest(m.max_sum_deviation for m in figures),
            sum_violations=sum(m.sum_violations for m in figures)
            if any(m.max_sum_deviation is not None for m in figures)
            else None,
            special_mismatches=sum(m.special_mismatches for m in figures)
            if any(m.special_rows for m in figures)
            else None,
            rejudged_rows=sum(m.rejudged_rows for m in figures) if judged else None,
            max_abs_difference_to_torch=_largest(m.max_abs_difference_to_torch for m in figures),
            findings=tuple(findings),
            gb_per_s=speed.gb_per_s if speed else None,
            speed_vs_torch=speed.times_faster.mid if speed and speed.times_faster else None,
            histogram=octaves(histogram),
            seconds=sum(r.seconds for r in self.results) + sum(p.seconds for p in self.probed),
        )

    def _why_nothing(self) -> str:
        if self.run.interrupted:
            return "not run: interrupted"
        if self.run.errors:
            return "not run: no selected case or probe could be carried out"
        skipped = [reason for probe in self.probed for reason in probe.conclusion.skipped]
        return f"not run: {skipped[0]}" if skipped else "no selected case lies within what it declares"

    def _findings(self, declaration: Declaration) -> list[Finding]:
        found = [*probes.findings(self.probed, self.run, declaration)]
        found += [
            self._finding(case, violation, declaration)
            for case, measurement in self.measured
            for violation in measurement.violations
        ]
        # What is not explained comes first, then by kind; of each kind the smallest input, the easiest to look into.
        size = {case.id: case.shape[0] * case.shape[1] for case, _ in self.measured}
        return sorted(
            found, key=lambda f: (f.known is not None, f.kind, f.case not in size, size.get(f.case, 0), f.case)
        )

    def _finding(self, case: Case, violation: Violation, declaration: Declaration) -> Finding:
        return Finding(
            id=finding_id(self.name, self.dtype, violation.kind, case.id),
            kind=violation.kind,
            case=case.id,
            message=violation.message,
            reproduce=reproduce_command(self.name, case, self.run.ready.backend, self.corpora),
            count=violation.count,
            row=violation.row,
            column=violation.column,
            input_bits=violation.input_bits,
            output_bits=violation.output_bits,
            known=explanation(violation, case.id, self.dtype, declaration, self.run.ready.backend),
        )

    def _verdict(self, declaration: Declaration, findings: list[Finding]) -> tuple[Verdict, str | None]:
        if any(f.known is None for f in findings):
            return "fail", None
        stale = [d for d in declaration.known_defects if self._is_stale(d)]
        if stale:
            kinds = ", ".join(stale[0].kinds)
            return "error", (
                f"declares a defect that was not found ({kinds} on {', '.join(stale[0].cases)}: {stale[0].reason}); "
                "remove it from the declaration if it is mended"
            )
        return ("known", None) if findings else ("pass", None)

    def _is_stale(self, defect: KnownDefect) -> bool:
        """A declared defect is strict only where every edge case, or every probe that it names, had its chance to show it."""
        options = self.run.options
        if self.run.interrupted or not defect.applies(self.dtype, self.run.ready.backend):
            return False
        could_show = [(c, m) for c, m in self.measured if defect.may_show(c.id)]
        if probes.explains_any(defect, self.probed) or any(
            defect.explains(v, c.id) for c, m in could_show for v in m.violations
        ):
            return False
        if probes.only_probes_show(defect):
            return probes.had_their_chance(defect, self.probed, quick=options.quick)
        return options.whole_corpus and bool(could_show)

    def _worst(self) -> tuple[Case, Extreme] | None:
        candidates = [(c, m.max_ulp) for c, m in self.measured if m.max_ulp is not None]
        return max(candidates, key=lambda item: item[1].value, default=None)

    def _speed(self) -> SpeedFigures | None:
        shapes = (shape for shape in self.timings if shape.dtype == self.dtype)
        return next((f for shape in shapes for f in shape.variants if f.variant == self.name), None)


def _witness(case: Case, extreme: Extreme, declaration: Declaration) -> Witness:
    row = case.bits(extreme.row + 1)[extreme.row]
    return Witness(
        case=case.id,
        row=extreme.row,
        column=extreme.column,
        input_bits=extreme.input_bits,
        output_bits=extreme.output_bits,
        exact=ball.decimal(decode(row, FORMATS[case.dtype]), extreme.column, fully_masked=declaration.fully_masked),
    )


def percentile_of(histogram: Mapping[int, int], worst: Extreme | None) -> float | None:
    """The 99.9th percentile of the ULP errors. A bin's upper edge may lie above the maximum, which the percentile can't exceed."""
    found = percentile(histogram, 0.999)
    return None if found is None or worst is None else min(found, worst.value)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def _cases(run: Run) -> tuple[CaseResult, ...]:
    builtin = {case.digest for case in load(builtin_names())}
    seen: dict[str, Result] = {}
    for result in run.results:
        seen.setdefault(result.case.id, result)
    return tuple(
        CaseResult(
            id=case_id,
            family=result.case.family,
            shape=result.case.shape,
            rows_run=result.measurement.rows,
            definition=None if result.case.digest in builtin else result.case,
        )
        for case_id, result in sorted(seen.items())
    )


def _not_timed(run: Run) -> list[str]:
    return [
        f"{timed.name}, {samples.dtype}: not timed: {timed.reason}"
        for samples in run.speeds
        for timed in samples.variants
        if timed.reason is not None
    ] + [f"{samples.dtype} timing: {alarm.message}" for samples in run.speeds for alarm in samples.alarms]


def _truncation_note(run: Run) -> tuple[str, ...]:
    cut = {r.case.id for r in run.results if rows_to_run(r.case, run.ready.backend) is not None}
    if not cut:
        return ()
    return (f"{len(cut)} cases were cut to their first rows under the interpreter; a GPU runs them whole",)


def environment(ready: Ready, seed: int, command: Sequence[str]) -> Environment:
    """Where and with what a run measured; ``command`` is what the user typed."""
    return Environment(
        backend=ready.backend,
        device=ready.device,
        torch=ready.torch,
        triton=ready.triton,
        python=ready.python,
        softcheck=__version__,
        seed=seed,
        git_commit=_git_commit(),
        driver=ready.driver,
        command=shlex.join(command),
    )


def _git_commit() -> str | None:
    """Commit for the record: GIT_COMMIT where the environment has it, as a copy without .git may, else the checkout's."""
    if os.environ.get("GIT_COMMIT"):
        return os.environ["GIT_COMMIT"]
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - git is found as the user's shell would
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def command_line() -> list[str]:
    """What the user typed, with the program's own name in place of its path."""
    return ["softcheck", *sys.argv[1:]]
