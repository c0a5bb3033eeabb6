"""The report of a test suite: what each test has judged, sent between processes as text and put together at the end."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from oracles.formats import FORMATS
from softcheck.report.build import build
from softcheck.report.model import Report, VariantResult
from softcheck.run.model import GivenUp, Run, RunOptions
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import Ready
from softcheck.run.session import CaseMeasurement
from softcheck.variants.declaration import Declaration
from softcheck.variants.recognised import Recognised


class JudgedTest(msgspec.Struct, kw_only=True):
    """Everything that one test has judged of one variant in one dtype. A test adds to it as it goes on."""

    ready: Ready
    variant: str
    dtype: str
    declaration: Declaration | None = None
    fact: Recognised | None = None
    """What trials have shown of its call."""
    refused: str | None = None
    """The reason why the variant could not be loaded."""
    results: list[CaseMeasurement] = []
    probed: list[ProbeResult] = []
    given_up: GivenUp | None = None
    """The cases and the probes that were not run since the variant had been given up."""

    def encoded(self) -> str:
        """The record as ASCII. It is no JSON, which has no infinity, and an ULP error may be infinite."""
        return base64.b85encode(msgspec.msgpack.encode(self)).decode()


def decoded(text: str) -> JudgedTest:
    """The record that ``encoded`` wrote."""
    return msgspec.msgpack.decode(base64.b85decode(text), type=JudgedTest)


def suite_report(
    tests: Sequence[JudgedTest], *, command: Sequence[str], seed: int, require_all_sizes: bool, seconds: float
) -> Report:
    """The report of tests that ran on one device, at least one; what two tests judged alike counts once."""
    results = {(each.variant, each.case.id): each for test in tests for each in test.results}
    quick_first = sorted((p for test in tests for p in test.probed), key=lambda p: p.task.effort != "quick")
    # The whole of a probe says more than its quick trials, which a failing test makes.
    probed = {(p.task.variant, p.task.dtype, p.task.probe): p for p in quick_first}
    judged = {(test.variant, test.dtype) for test in tests}
    # A variant may be loaded in one dtype and be refused in another.
    refused = {(test.variant, test.dtype): test.refused for test in tests if test.refused is not None}
    run = Run(
        options=RunOptions(
            variants=tuple(sorted({variant for variant, _ in judged})),
            dtypes=tuple(dtype for dtype in FORMATS if any(dtype == each for _, each in judged)),
            cases=tuple({case_id: each.case for (_, case_id), each in results.items()}.values()),
            whole_corpus=False,
            effort="quick" if any(result.task.effort == "quick" for result in probed.values()) else "normal",
            seed=seed,
            require_all_sizes=require_all_sizes,
        ),
        ready=tests[0].ready,
        declarations={test.variant: test.declaration for test in tests if test.declaration is not None},
        facts={test.variant: test.fact for test in tests if test.fact is not None},
        results=sorted(results.values(), key=lambda each: (each.variant, each.case.id)),
        probed=sorted(probed.values(), key=lambda each: (each.task.variant, each.task.dtype, each.task.probe)),
        given_up=_given_up(tests, results, probed),
        seconds=seconds,
    )
    report = build(run, command=command)
    rows = (
        row
        if (reason := refused.get((row.name, row.dtype))) is None
        else VariantResult(name=row.name, dtype=row.dtype, verdict="error", reason=reason, place=row.place)
        for row in report.variants
        if (row.name, row.dtype) in judged
    )
    return msgspec.structs.replace(report, variants=tuple(rows))


def _given_up(
    tests: Sequence[JudgedTest],
    results: Mapping[tuple[str, str], CaseMeasurement],
    probed: Mapping[tuple[str, str, str], ProbeResult],
) -> list[GivenUp]:
    """The cases and probes that no test has run because their variant had been given up, by variant and dtype."""
    found: dict[tuple[str, str], GivenUp] = {}
    for each in (test.given_up for test in tests if test.given_up is not None):
        of = (each.variant, each.dtype)
        before = found.get(of, replace(each, cases=(), probes=()))
        cases = (case for case in (*before.cases, *each.cases) if (each.variant, case.id) not in results)
        probes = (name for name in (*before.probes, *each.probes) if (*of, name) not in probed)
        named = tuple({case.id: case for case in cases}.values())
        found[of] = replace(before, cases=named, probes=tuple(dict.fromkeys(probes)))
    return [found[of] for of in sorted(found) if found[of].cases or found[of].probes]
