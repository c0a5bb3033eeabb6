"""What the pytest fixtures hand to a test: one variant in one dtype, to judge on saved or on generated cases."""

from dataclasses import dataclass, field

import pytest

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.report.probes import probe_command
from softcheck.report.reproduce import reproduce_command
from softcheck.run.check import explanation
from softcheck.run.generate import generate
from softcheck.run.plan import left_out
from softcheck.run.probing import ProbeTask, run_probe
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration


@dataclass
class _Subject:
    """One variant in one dtype, and the worker that runs it."""

    session: Session
    variant: str
    dtype: str
    has_judged: bool = field(default=False, init=False)
    """Whether the test has called what judges, whatever came of it."""

    def declaration(self) -> Declaration:
        """The variant's declaration. Fails the test where it can't be loaded, skips it for an undeclared dtype."""
        self.has_judged = True
        declaration = self.session.load(self.variant, [self.dtype])
        if isinstance(declaration, str):
            pytest.fail(f"{self.variant}: {declaration}", pytrace=False)
        if self.dtype not in declaration.dtypes:
            pytest.skip(f"{self.variant} declares {', '.join(declaration.dtypes)}, not {self.dtype}")
        return declaration

    def explained(self, result: CaseMeasurement, violation: Violation, declaration: Declaration) -> str | None:
        """The reason of the declared defect behind a violation, or None."""
        return explanation(violation, result.case.id, self.dtype, declaration, self.session.ready.backend)

    def describe(self, result: CaseMeasurement, violation: Violation) -> str:
        """Kind, case, what the judge says, and the command that shows it again."""
        command = reproduce_command(self.variant, result.case, self.session.ready.backend)
        return f"  {violation.kind} on {result.case.id}\n    {violation.message}\n    {command}"

    def given_up(self) -> str | None:
        """Why the variant is called no more, or None while it is."""
        over = self.session.patience.over(self.variant, self.dtype)
        return None if over is None else f"{self.variant} was given up: {over.why}"

    def fail(self, broken: list[str]) -> None:
        """Ends the test with every broken promise."""
        heading = f"{self.variant}, {self.dtype}: {len(broken)} broken promises"
        pytest.fail("\n".join([heading, *broken]), pytrace=False)


@dataclass
class Accuracy(_Subject):
    """One variant on the saved cases of one family in one dtype."""

    cases: tuple[Case, ...]

    def check(self) -> None:
        """Judges every case and fails with each broken promise: value, expected, ULP, bound, bits, and how to reproduce.

        Skips, with the reason, what the variant does not declare and what Triton's interpreter can't run. Ends as an
        expected failure where all that was found are declared defects.
        """
        declaration = self.declaration()
        covered = [case for case in self.cases if left_out(case, declaration) is None]
        if not covered:
            pytest.skip(f"{self.variant} does not declare these cases: {left_out(self.cases[0], declaration)}")
        broken: list[str] = []
        known: list[str] = []
        unable: list[str] = []
        for case in covered:
            results = self.session.run_case(case, [self.variant])
            if not results:
                broken.append(f"  not run from {case.id} on: {self.given_up()}")
                break
            (result,) = results
            if result.measurement.skipped is not None:
                unable.append(result.measurement.skipped)
            for violation in result.measurement.violations:
                reason = self.explained(result, violation, declaration)
                (known if reason else broken).append(reason or self.describe(result, violation))
        if broken:
            self.fail(broken)
        if known:
            pytest.xfail(known[0])
        if len(unable) == len(covered):
            pytest.skip(f"{self.variant}: {unable[0]}")
        for reason in dict.fromkeys(unable):
            print(f"{self.variant}, {self.dtype}: cases not run: {reason}")  # noqa: T201 - pytest shows it beside the test


@dataclass
class ProbedAccuracy(_Subject):
    """One variant in one dtype under one probe."""

    probe: str

    def check(self) -> None:
        """Makes every trial and fails with each broken promise: what it is, the trial, and how to reproduce.

        Skips, with the reason, what the variant does not declare or refuses, and where no trial could be made; prints the reasons of
        single trials that could not. Ends as an expected failure where all that was found are declared defects.
        """
        declaration = self.declaration()
        task = ProbeTask(variant=self.variant, dtype=self.dtype, probe=self.probe)
        result = run_probe(self.session, task)
        if result is None:
            pytest.fail(str(self.given_up()), pytrace=False)
        backend = self.session.ready.backend
        broken: list[str] = []
        known: list[str] = []
        refused: list[str] = []
        for shown in result.conclusion.findings:
            case_id, violation = result.case_id(shown.label), shown.violation
            reason = explanation(violation, case_id, self.dtype, declaration, backend)
            said = f"  {violation.kind} on {case_id}\n    {violation.message}\n    {probe_command(task, backend)}"
            if reason is None and violation.kind is FindingKind.EMPTY_REFUSED:
                refused.append(f"{self.variant} refuses inputs without elements: {violation.message}")
            else:
                (known if reason else broken).append(reason or said)
        if broken:
            self.fail(broken)
        if known:
            pytest.xfail(known[0])
        if refused:
            pytest.skip(refused[0])
        if result.conclusion.trials == 0:
            why = "; ".join(result.conclusion.skipped) or "nothing to try within what it declares"
            pytest.skip(f"{self.variant}, {self.probe}: {why}")
        for reason in result.conclusion.skipped:
            print(f"{task}: trials skipped: {reason}")  # noqa: T201 - pytest shows it beside the test


@dataclass
class GeneratedAccuracy(_Subject):
    """One variant in one dtype on cases that hypothesis makes."""

    examples: int

    def search(self, *, seed: int = 0) -> None:
        """Judges generated cases; fails with the smallest failing one and the command that saves it as a regression."""
        declaration = self.declaration()

        def undeclared(result: CaseMeasurement) -> list[Violation]:
            return [v for v in result.measurement.violations if self.explained(result, v, declaration) is None]

        found = generate(
            self.session,
            self.variant,
            self.dtype,
            examples=self.examples,
            seed=seed,
            declaration=declaration,
            is_failure=lambda result: bool(undeclared(result)),
            on_result=lambda _: None,
        )
        if found.failure is not None:
            failure = found.failure
            self.fail([self.describe(failure, violation) for violation in undeclared(failure)])
        if (given_up := self.given_up()) is not None:
            pytest.fail(given_up, pytrace=False)
