"""Objects that the pytest fixtures hand to a test: one variant in one dtype, and the cases to judge it on."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest

from softcheck.cases.case import Case
from softcheck.report.content import FindingGroup
from softcheck.report.model import Finding, VariantResult
from softcheck.report.suite import JudgedTest, suite_report
from softcheck.report.table import group_lines
from softcheck.run.generate import generate
from softcheck.run.model import GivenUp
from softcheck.run.plan import left_out
from softcheck.run.probing import run_probe, time_share
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session
from softcheck.run.size_limits import around, size_limits, violations_of
from softcheck.variants.declaration import Declaration

_SHOWN_CAUSES = 4


@dataclass
class Told:
    """The earlier tests of one variant in one dtype that have failed: a cause is taken from all of them together."""

    tests: dict[str, str] = field(default_factory=dict)
    """The test that showed each finding, by the finding's id."""
    judged: list[JudgedTest] = field(default_factory=list)


@dataclass
class _Subject:
    """One variant in one dtype, and the worker that runs it."""

    session: Session
    variant: str
    dtype: str
    seed: int = field(default=0, kw_only=True)
    """The number that all drawn inputs come from."""
    require_all_sizes: bool = field(default=False, kw_only=True)
    """True if sizes that the variant refuses are broken promises."""
    told: dict[tuple[str, str], Told] = field(default_factory=dict, kw_only=True)
    """Causes that earlier tests have failed of, by variant and dtype."""
    name: str = field(default="an earlier test", kw_only=True)
    """The name of the test."""
    has_judged: bool = field(default=False, init=False, kw_only=True)
    """True if the test has called a judging function, whatever the result."""
    judged: JudgedTest = field(init=False, kw_only=True)
    """The measurements that the test has made so far, for the report of the whole suite."""

    def __post_init__(self) -> None:
        self.judged = JudgedTest(ready=self.session.ready, variant=self.variant, dtype=self.dtype)

    def declaration(self) -> Declaration:
        """The variant's declaration. Fails the test where it can't be loaded, skips it for an undeclared dtype."""
        self.has_judged = True
        declaration = self.session.load(self.variant, [self.dtype])
        if isinstance(declaration, str):
            self.judged.refused = declaration
            pytest.fail(f"{self.variant}: {declaration}", pytrace=False)
        self.judged.declaration = declaration
        self.judged.fact = self.session.facts.get(self.variant)
        if self.dtype not in declaration.dtypes:
            pytest.skip(f"{self.variant} declares {', '.join(declaration.dtypes)}, not {self.dtype}")
        return declaration

    def given_up(self, cases: Sequence[Case] = (), probes: Sequence[str] = ()) -> str | None:
        """Returns the reason why the variant is called no more, or None; ``cases`` and ``probes`` were then not run."""
        over = self.session.patience.over(self.variant, self.dtype)
        if over is None:
            return None
        if cases or probes:
            left: dict[str, Any] = {"cases": tuple(cases), "probes": tuple(probes)}
            self.judged.given_up = GivenUp(variant=self.variant, dtype=self.dtype, over=over, **left)
        return f"{self.variant} was given up: {over.why}"

    def conclude(self, declaration: Declaration) -> None:
        """Fails with causes, expects a failure of declared defects, skips refused sizes, and returns where nothing was found."""
        judged = self.judged
        count = len(judged.results)
        judged.results += around(self.session, self.variant, declaration, self.dtype, judged.results, judged.probed)
        row = self._row([judged])
        broken = [finding for finding in row.findings if finding.known is None]
        if broken:
            self._fail(broken)
        if row.findings:
            pytest.xfail(str(row.findings[0].known))
        violations = violations_of(judged.results[:count], judged.probed)
        said = []
        for limit in size_limits(judged.results, judged.probed):
            refused = sum(map(limit.covers, violations))
            said.append(f"{limit.words} ({refused} of {count} cases)" if count else limit.words)
        if said:
            pytest.skip(f"{self.variant}, {self.dtype}: {'; '.join(said)}")

    def _row(self, tests: Sequence[JudgedTest]) -> VariantResult:
        """The row of a report of what tests have judged of this variant in this dtype."""
        report = suite_report(tests, command=(), seed=self.seed, require_all_sizes=self.require_all_sizes, seconds=0.0)
        return report.variants[0]

    def _fail(self, broken: Sequence[Finding]) -> NoReturn:
        """Fails with the causes of what was found, or expects the failure if an earlier test has failed of all of them."""
        told = self.told.setdefault((self.variant, self.dtype), Told())
        if not told.judged and not self.given_up():
            # The quick probe of widths names the widths that fail.
            task = ProbeTask(variant=self.variant, dtype=self.dtype, probe="sizes", effort="quick", seed=self.seed)
            result = run_probe(self.session, task)
            self.judged.probed += [] if result is None else [result]
        told.judged.append(self.judged)
        own = {finding.id for finding in broken}
        row = self._row(told.judged)
        causes = [cause for cause in row.causes if own.intersection(cause.findings)]
        earlier = [next((told.tests[id_] for id_ in cause.findings if id_ in told.tests), None) for cause in causes]
        told.tests |= {id_: self.name for id_ in own if id_ not in told.tests}
        explained = {id_ for cause in causes for id_ in cause.findings}
        others = [finding for finding in broken if finding.id not in explained]
        if causes and not others and None not in earlier:
            pytest.xfail(f"{earlier[0]} failed of the same cause: {causes[0].text}")
        lines = [f"{self.variant}, {self.dtype}: {len(broken)} broken promise{'' if len(broken) == 1 else 's'}"]
        for cause in causes[:_SHOWN_CAUSES]:
            group = FindingGroup(row, tuple(each for each in broken if each.id in cause.findings), cause)
            lines += [f"  {line}" for line in group_lines(group)]
        if len(causes) > _SHOWN_CAUSES:
            lines.append(
                f"  and {len(causes) - _SHOWN_CAUSES} more causes: see softcheck report {shlex.quote(self.variant)}"
            )
        lines += [f"  {f.kind} on {f.case}: {f.message}\n    {f.reproduce}" for f in others[:_SHOWN_CAUSES]]
        pytest.fail("\n".join(lines), pytrace=False)


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
        unable: list[str] = []
        for case in covered:
            results = self.session.run_case(case, [self.variant])
            if not results:
                self.given_up(cases=covered[covered.index(case) :])
                break
            self.judged.results += results
            unable += [result.measurement.skipped for result in results if result.measurement.skipped is not None]
        self.conclude(declaration)
        if len(unable) == len(covered):
            pytest.skip(f"{self.variant}: {unable[0]}")
        for reason in dict.fromkeys(unable):
            print(f"{self.variant}, {self.dtype}: cases not run: {reason}")  # noqa: T201 - pytest shows it beside the test


@dataclass
class ProbedAccuracy(_Subject):
    """One variant in one dtype under one probe."""

    probe: str
    subjects: int = 1
    """Variants times dtypes that are tested in this run."""

    def check(self) -> None:
        """Makes every trial and fails with each broken promise: the promise, the trial, and how to reproduce it.

        Skips, with the reason, an undeclared dtype, a variant that refuses inputs without elements, and a probe without
        any trial. Prints the reasons of single skipped trials. Ends as an expected failure if all findings are declared
        defects.
        """
        declaration = self.declaration()
        share = time_share(self.session.ready.backend, self.subjects)
        task = ProbeTask(variant=self.variant, dtype=self.dtype, probe=self.probe, seed=self.seed, time_share=share)
        result = run_probe(self.session, task)
        if result is None:
            pytest.fail(str(self.given_up(probes=[self.probe])), pytrace=False)
        self.judged.probed.append(result)
        self.conclude(declaration)
        if result.conclusion.trials == 0:
            why = "; ".join(result.conclusion.skipped) or "nothing to try within what it declares"
            pytest.skip(f"{self.variant}, {self.probe}: {why}")
        for reason in result.conclusion.skipped:
            print(f"{task}: trials skipped: {reason}")  # noqa: T201 - pytest shows it beside the test


@dataclass
class GeneratedAccuracy(_Subject):
    """One variant in one dtype on cases that hypothesis makes."""

    examples: int

    def search(self, *, seed: int | None = None) -> None:
        """Judges generated cases; fails with the smallest failing one and the command that saves it as a regression.

        The cases come from ``seed``, or from the run's if it is left out.

        Skips, with the reason, where the variant refuses generated cases for their size and answers nothing larger.
        """
        declaration = self.declaration()

        found = generate(
            self.session,
            self.variant,
            self.dtype,
            examples=self.examples,
            seed=self.seed if seed is None else seed,
            declaration=declaration,
            with_refusals=False,
            on_result=self.judged.results.append,
        )
        if found.failure is not None:
            self.judged.results.append(found.failure)
        elif (given_up := self.given_up()) is not None:
            pytest.fail(given_up, pytrace=False)
        self.conclude(declaration)
