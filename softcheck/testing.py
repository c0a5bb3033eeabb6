"""Objects that the pytest fixtures hand to a test: one variant in one dtype, and the cases to judge it on."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
import pytest

from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.report.causes import causes_of
from softcheck.report.findings import FindingSource
from softcheck.report.model import Cause, Finding
from softcheck.report.probes import probe_command
from softcheck.report.reproduce import reproduce_command
from softcheck.report.suite import JudgedTest
from softcheck.run.generate import generate
from softcheck.run.plan import left_out
from softcheck.run.probing import ProbeResult, ProbeTask, run_probe, time_share
from softcheck.run.refused_sizes import Around, around
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration

_SHOWN_CAUSES = 4


@dataclass(frozen=True, slots=True)
class _Shown:
    """A broken promise, and the case that shows it."""

    case_id: str
    violation: Violation
    again: str
    """The command that shows it again."""


@dataclass
class Told:
    """Findings of earlier tests of one variant in one dtype: a cause is taken from all of them together."""

    tests: dict[str, str] = field(default_factory=dict)
    """The test that showed each finding, by the finding's id."""
    found: dict[str, Finding] = field(default_factory=dict)
    """These findings, and those of the quick probe of widths, by id."""
    cases: dict[str, Case] = field(default_factory=dict)
    """The cases of these tests, by id."""


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

    def again(self, result: CaseMeasurement) -> str:
        """The command that runs a case again."""
        return reproduce_command(self.variant, result.case, self.session.ready.backend)

    def given_up(self, cases: Sequence[Case] = (), probes: Sequence[str] = ()) -> str | None:
        """Returns the reason why the variant is called no more, or None; ``cases`` and ``probes`` were then not run."""
        over = self.session.patience.over(self.variant, self.dtype)
        if over is None:
            return None
        if cases or probes:
            self.judged.given_up = (over, tuple(cases), tuple(probes))
        return f"{self.variant} was given up: {over.why}"

    def shown(self, results: Sequence[CaseMeasurement]) -> list[_Shown]:
        """The broken promises of some results."""
        return [
            _Shown(result.case.id, violation, self.again(result))
            for result in results
            for violation in result.measurement.violations
        ]

    def sizes(
        self, declaration: Declaration, results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult] = ()
    ) -> Around:
        """The sizes that the variant refuses, told from these results and from calls around what they refuse."""
        self.judged.results += results
        self.judged.probed += probed
        found = around(self.session, self.variant, declaration, self.dtype, results, probed)
        self.judged.results += found.tried
        return found

    def conclude(
        self,
        shown: Sequence[_Shown],
        sizes: Around,
        declaration: Declaration,
        *,
        cases: Sequence[Case] = (),
        broken: Sequence[str] = (),
        judged: int = 0,
    ) -> None:
        """Ends the test where something was found, and returns where nothing was.

        It fails with the causes of what was found on ``cases`` and in probes, and with ``broken``. Else it is an expected
        failure where a declared defect showed. Else it is skipped where sizes are refused, or fails where every size is
        promised; ``judged`` cases were called in all.
        """
        beside = [each for each in self.shown(sizes.tried) if each.violation.refusal is None]
        failed: list[_Shown] = []
        known: list[str] = []
        refused: Counter[str] = Counter()
        for each in (*shown, *beside):
            limit = sizes.limit_of(each.violation)
            reason = declaration.explanation(each.violation, each.case_id, self.dtype, self.session.ready.backend)
            if reason is not None:
                known.append(reason)
            elif limit is None:
                failed.append(each)
            else:
                refused[limit.words] += 1
        said = [f"{why} ({count} of {judged} cases)" if judged else why for why, count in refused.items()]
        others = list(broken)
        if self.require_all_sizes:
            others += [f"  {why}; --softcheck-require-all-sizes promises every size" for why in said]
        if failed or others:
            self.fail(failed, [*cases, *(result.case for result in sizes.tried)], others)
        if known:
            pytest.xfail(known[0])
        if said:
            pytest.skip(f"{self.variant}, {self.dtype}: {'; '.join(said)}")

    def fail(self, shown: Sequence[_Shown], cases: Sequence[Case], others: Sequence[str] = ()) -> NoReturn:
        """Ends the test with the causes of what was found.

        Where an earlier test of this variant and dtype has failed of the same causes, this one is an expected failure that
        points to it.
        """
        told = self.told.setdefault((self.variant, self.dtype), Told())
        found = [self._finding(each) for each in shown]
        if found and not told.found:
            told.found = {finding.id: finding for finding in self._widths()}
        own = {finding.id for finding in found}
        told.found |= {finding.id: finding for finding in found}
        told.cases |= {case.id: case for case in cases}
        computed = (self.judged.declaration or Declaration()).computed
        named = causes_of(
            list(told.found.values()),
            list(told.cases.values()),
            operation=computed.name,
            parameters=computed.parameters,
            dtype=self.dtype,
            computing="" if self.judged.fact is None else self.judged.fact.computes,
        )
        causes = [cause for cause in named if own.intersection(cause.findings)]
        earlier = [next((told.tests[id_] for id_ in cause.findings if id_ in told.tests), None) for cause in causes]
        told.tests |= {id_: self.name for id_ in own if id_ not in told.tests}
        if causes and not others and None not in earlier:
            pytest.xfail(f"{earlier[0]} failed of the same cause: {causes[0].text}")
        promises = f"{len(shown) + len(others)} broken promise{'' if len(shown) + len(others) == 1 else 's'}"
        lines = [f"{self.variant}, {self.dtype}: {promises}"]
        for cause in causes[:_SHOWN_CAUSES]:
            lines += _cause_lines(cause, [each for each in found if each.id in set(cause.findings)])
        if len(causes) > _SHOWN_CAUSES:
            lines.append(
                f"  and {len(causes) - _SHOWN_CAUSES} more causes: see softcheck report {shlex.quote(self.variant)}"
            )
        pytest.fail("\n".join([*lines, *others]), pytrace=False)

    def _widths(self) -> list[Finding]:
        """Runs the quick probe of widths and returns its findings, which names the failing widths; nothing where it can't be run."""
        task = ProbeTask(variant=self.variant, dtype=self.dtype, probe="sizes", effort="quick", seed=self.seed)
        result = None if self.given_up() else run_probe(self.session, task)
        if result is None:
            return []
        self.judged.probed.append(result)
        again = probe_command(task, self.session.ready.backend)
        return [
            self._finding(_Shown(result.case_id(shown.label), shown.violation, again))
            for shown in result.conclusion.findings
            if shown.violation.refusal is None
        ]

    def _finding(self, shown: _Shown) -> Finding:
        declaration = self.judged.declaration or Declaration()
        source = FindingSource(self.variant, self.dtype, declaration, self.session.ready.backend)
        found = source.finding(shown.violation, shown.case_id, shown.again)
        # What a declared defect explains is no promise broken here.
        return msgspec.structs.replace(found, known=None)


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
                left = covered[covered.index(case) :]
                broken.append(f"  not run from {case.id} on: {self.given_up(cases=left)}")
                break
            done += results
            unable += [result.measurement.skipped for result in results if result.measurement.skipped is not None]
        sizes = self.sizes(declaration, done)
        self.conclude(
            self.shown(done),
            sizes,
            declaration,
            cases=[result.case for result in done],
            broken=broken,
            judged=len(done),
        )
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
        backend = self.session.ready.backend
        again = probe_command(task, backend)
        found: list[_Shown] = []
        for shown in result.conclusion.findings:
            case_id, violation = result.case_id(shown.label), shown.violation
            found.append(_Shown(case_id, violation, again))
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

    def search(self, *, seed: int | None = None) -> None:
        """Judges generated cases; fails with the smallest failing one and the command that saves it as a regression.

        The cases come from ``seed``, or from the run's if it is left out.

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
            seed=self.seed if seed is None else seed,
            declaration=declaration,
            is_failure=is_failure,
            on_result=done.append,
        )
        self.judged.results += done
        if found.failure is not None:
            failure = found.failure
            self.judged.results.append(failure)
            self.fail(
                [_Shown(failure.case.id, violation, self.again(failure)) for violation in undeclared(failure)],
                [failure.case],
            )
        if (given_up := self.given_up()) is not None:
            pytest.fail(given_up, pytrace=False)
        self.conclude(self.shown(done), self.sizes(declaration, done), declaration, judged=len(done))


def _cause_lines(cause: Cause, found: Sequence[Finding]) -> list[str]:
    """The cause, its fix, one finding that shows it with its command, and the others by kind."""
    first = found[0]
    kinds = ", ".join(
        f"{kind} \N{MULTIPLICATION SIGN}{count}" for kind, count in Counter(str(f.kind) for f in found).items()
    )
    return [
        f"  {cause.text}",
        *([f"    fix: {cause.mend}"] if cause.mend else []),
        f"    {first.kind} on {first.case}: {first.message}",
        f"    {first.reproduce}",
        *([f"    in all {kinds}; softcheck explain {first.kind} says more"] if len(found) > 1 else []),
    ]
