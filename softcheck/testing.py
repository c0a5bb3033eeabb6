"""Objects that the pytest fixtures hand to a test: one variant in one dtype, and the cases to judge it on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.report.probes import probe_command
from softcheck.report.reproduce import reproduce_command
from softcheck.run.generate import generate
from softcheck.run.plan import left_out
from softcheck.run.probing import ProbeResult, ProbeTask, run_probe
from softcheck.run.refused_sizes import Around, around
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True)
class _Shown:
    """A broken promise, the case that shows it, and what is said of it."""

    case_id: str
    violation: Violation
    said: str


@dataclass
class _Subject:
    """One variant in one dtype, and the worker that runs it."""

    session: Session
    variant: str
    dtype: str
    require_all_sizes: bool = field(default=False, kw_only=True)
    """True if sizes that the variant refuses are broken promises."""
    has_judged: bool = field(default=False, init=False, kw_only=True)
    """True if the test has called a judging function, whatever the result."""

    def declaration(self) -> Declaration:
        """The variant's declaration. Fails the test where it can't be loaded, skips it for an undeclared dtype."""
        self.has_judged = True
        declaration = self.session.load(self.variant, [self.dtype])
        if isinstance(declaration, str):
            pytest.fail(f"{self.variant}: {declaration}", pytrace=False)
        if self.dtype not in declaration.dtypes:
            pytest.skip(f"{self.variant} declares {', '.join(declaration.dtypes)}, not {self.dtype}")
        return declaration

    def describe(self, result: CaseMeasurement, violation: Violation) -> str:
        """Returns the kind, the case, the judge's message, and the command that shows the finding again."""
        command = reproduce_command(self.variant, result.case, self.session.ready.backend)
        return f"  {violation.kind} on {result.case.id}\n    {violation.message}\n    {command}"

    def given_up(self) -> str | None:
        """Returns the reason why the variant is called no more, or None."""
        over = self.session.patience.over(self.variant, self.dtype)
        return None if over is None else f"{self.variant} was given up: {over.why}"

    def shown(self, results: Sequence[CaseMeasurement]) -> list[_Shown]:
        """The broken promises of some results."""
        return [
            _Shown(result.case.id, violation, self.describe(result, violation))
            for result in results
            for violation in result.measurement.violations
        ]

    def sizes(
        self, declaration: Declaration, results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult] = ()
    ) -> Around:
        """The sizes that the variant refuses, told from these results and from calls around what they refuse."""
        return around(self.session, self.variant, declaration, self.dtype, results, probed)

    def conclude(
        self,
        shown: Sequence[_Shown],
        sizes: Around,
        declaration: Declaration,
        *,
        broken: Sequence[str] = (),
        judged: int = 0,
    ) -> None:
        """Ends the test where something was found, and returns where nothing was.

        It fails with every broken promise, ``broken`` among them. Else it is an expected failure where a declared defect showed. Else
        it is skipped where sizes are refused, or fails where every size is promised; ``judged`` cases were called in all.
        """
        beside = [each for each in self.shown(sizes.tried) if each.violation.refusal is None]
        failed = list(broken)
        known: list[str] = []
        refused: Counter[str] = Counter()
        for each in (*shown, *beside):
            limit = sizes.limit_of(each.violation)
            reason = declaration.explanation(each.violation, each.case_id, self.dtype, self.session.ready.backend)
            if reason is not None:
                known.append(reason)
            elif limit is None:
                failed.append(each.said)
            else:
                refused[limit.words] += 1
        said = [f"{why} ({count} of {judged} cases)" if judged else why for why, count in refused.items()]
        if self.require_all_sizes:
            failed += [f"  {why}; --softcheck-require-all-sizes promises every size" for why in said]
        if failed:
            self.fail(failed)
        if known:
            pytest.xfail(known[0])
        if said:
            pytest.skip(f"{self.variant}, {self.dtype}: {'; '.join(said)}")

    def fail(self, broken: list[str]) -> None:
        """Ends the test with every broken promise."""
        heading = f"{self.variant}, {self.dtype}: {len(broken)} broken promises"
        pytest.fail("\n".join([heading, *broken]), pytrace=False)


@dataclass
class Accuracy(_Subject):
    """One variant on the saved cases of one family in one dtype."""

    cases: tuple[Case, ...]

    def check(self) -> None:
        """Judges every case and fails with each broken promise: value, expected, ULP, bound, bits, and a command.

        Skips, with the reason, cases that the variant does not declare and cases that Triton's interpreter can't run, and ends
        as a skip if the variant refuses a case for its size and answers nothing larger: the other cases have passed then.
        Ends as an expected failure if all findings are declared defects. The command reproduces the finding.
        """
        declaration = self.declaration()
        covered = [case for case in self.cases if left_out(case, declaration) is None]
        if not covered:
            pytest.skip(f"{self.variant} does not declare these cases: {left_out(self.cases[0], declaration)}")
        broken: list[str] = []
        unable: list[str] = []
        done: list[CaseMeasurement] = []
        for case in covered:
            results = self.session.run_case(case, [self.variant])
            if not results:
                broken.append(f"  not run from {case.id} on: {self.given_up()}")
                break
            done += results
            unable += [result.measurement.skipped for result in results if result.measurement.skipped is not None]
        sizes = self.sizes(declaration, done)
        self.conclude(self.shown(done), sizes, declaration, broken=broken, judged=len(done))
        if len(unable) == len(covered):
            pytest.skip(f"{self.variant}: {unable[0]}")
        for reason in dict.fromkeys(unable):
            print(f"{self.variant}, {self.dtype}: cases not run: {reason}")  # noqa: T201 - pytest shows it beside the test


@dataclass
class ProbedAccuracy(_Subject):
    """One variant in one dtype under one probe."""

    probe: str

    def check(self) -> None:
        """Makes every trial and fails with each broken promise: the promise, the trial, and how to reproduce it.

        Skips, with the reason, an undeclared dtype, a variant that refuses inputs without elements, and a probe without
        any trial. Prints the reasons of single skipped trials. Ends as an expected failure if all findings are declared
        defects.
        """
        declaration = self.declaration()
        task = ProbeTask(variant=self.variant, dtype=self.dtype, probe=self.probe)
        result = run_probe(self.session, task)
        if result is None:
            pytest.fail(str(self.given_up()), pytrace=False)
        backend = self.session.ready.backend
        again = probe_command(task, backend)
        found: list[_Shown] = []
        for shown in result.conclusion.findings:
            case_id, violation = result.case_id(shown.label), shown.violation
            found.append(
                _Shown(case_id, violation, f"  {violation.kind} on {case_id}\n    {violation.message}\n    {again}")
            )
        self.conclude(found, self.sizes(declaration, [], [result]), declaration)
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
        """Judges generated cases; fails with the smallest failing one and the command that saves it as a regression.

        Skips, with the reason, where the variant refuses generated cases for their size and answers nothing larger.
        """
        declaration = self.declaration()

        def undeclared(result: CaseMeasurement) -> list[Violation]:
            backend, found = self.session.ready.backend, result.measurement.violations
            return [v for v in found if declaration.explanation(v, result.case.id, self.dtype, backend) is None]

        def is_failure(result: CaseMeasurement) -> bool:
            return any(violation.refusal is None for violation in undeclared(result))

        done: list[CaseMeasurement] = []
        found = generate(
            self.session,
            self.variant,
            self.dtype,
            examples=self.examples,
            seed=seed,
            declaration=declaration,
            is_failure=is_failure,
            on_result=done.append,
        )
        if found.failure is not None:
            failure = found.failure
            self.fail([self.describe(failure, violation) for violation in undeclared(failure)])
        if (given_up := self.given_up()) is not None:
            pytest.fail(given_up, pytrace=False)
        self.conclude(self.shown(done), self.sizes(declaration, done), declaration, judged=len(done))
