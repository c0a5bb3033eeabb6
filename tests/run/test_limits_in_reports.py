"""Size limits in a report: a note and no finding, unless every size is promised."""

import dataclasses

import msgspec
import numpy as np
import pytest
from test_verdicts import Declaration, case, measured, run_of

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.judge.measurement import unmeasured
from softcheck.report.build import build, exit_code
from softcheck.report.formats import render
from softcheck.report.output import Display
from softcheck.run.widths import WidthLimit
from softcheck.variants.declaration import KnownDefect

LIMIT = WidthLimit(variant="v", dtype="float16", columns=65536, seconds=41.2)


def sized(rows, columns):
    bits = np.zeros((rows, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", family="wide", name=f"{rows}x{columns}")


def refusing(rows, columns, *more):
    refusal = Refusal(rows=rows, columns=columns, error="RuntimeError: too wide", place="v.py:3")
    kind = FindingKind.RAISED if rows and columns else FindingKind.EMPTY_REFUSED
    violation = Violation(kind, "RuntimeError: too wide at v.py:3; expected an output", refusal=refusal)
    return sized(rows, columns), unmeasured((rows, columns), (violation, *more))


def answered(columns):
    return sized(2, columns), msgspec.structs.replace(measured(), rows=2, columns=columns, unjudged_rows=0)


def reported(measurements, *, promised=False, declaration=None, **more):
    run = run_of(declaration or Declaration(), measurements, strict=False, **more)
    run.options = dataclasses.replace(run.options, require_all_sizes=promised)
    return build(run, command=["softcheck", "report"])


def test_a_compile_limit_stands_beside_the_verdict_and_in_a_note():
    left_out = sized(2, 65536), msgspec.structs.replace(unmeasured((2, 65536), ()), skipped=str(LIMIT))
    report = reported([answered(8), left_out], width_limits=[LIMIT])
    (row,) = report.variants
    assert (row.verdict, row.cases_run) == ("pass", 1)
    assert row.holds == "to 32768 columns; 65536 would take 41 s to compile"
    assert any("judged to 32768 columns" in note and "--compile-seconds 10" in note for note in report.notes)
    assert "none; holds to 32768 columns; 65536 would take 41 s to compile" in render(report, "table", Display())
    assert exit_code(report) == 0


def test_refusals_beyond_a_width_are_one_note():
    report = reported([answered(8), *(refusing(2, n) for n in (100, 200, 300))])
    (row,) = report.variants
    assert (row.verdict, row.findings, row.cases_run) == ("pass", (), 1)
    assert row.holds == "to 8 columns; 100 are refused"
    (note,) = [note for note in report.notes if "refuses beyond" in note]
    assert "declare max_columns=8" in note
    assert "3 cases" in note
    assert exit_code(report) == 0


def test_other_broken_promises_of_a_refusing_call_stay():
    other = Violation(FindingKind.STATE_CHANGED, "changed the seed")
    (row,) = reported([answered(8), refusing(2, 100, other)]).variants
    assert [finding.kind for finding in row.findings] == [FindingKind.STATE_CHANGED]


@pytest.mark.parametrize(("shape", "kind"), [((2, 100), FindingKind.SIZE_REFUSED), ((2, 0), FindingKind.EMPTY_REFUSED)])
def test_who_promises_every_size_breaks_the_promise_once(shape, kind):
    larger = shape[0] + 1, shape[1]
    report = reported([answered(8), refusing(*shape), refusing(*larger)], promised=True)
    (finding,) = report.variants[0].findings
    assert (finding.kind, finding.count) == (kind, 2)
    assert finding.reproduce.endswith("--require-all-sizes")
    assert exit_code(report) == 1


def test_who_promises_every_size_breaks_it_by_what_is_too_wide_to_compile():
    (row,) = reported([answered(8)], promised=True, width_limits=[LIMIT]).variants
    (finding,) = row.findings
    assert finding.kind is FindingKind.SIZE_REFUSED
    assert "41 s to compile" in finding.message


def test_a_refusal_that_is_no_limit_stays_a_finding():
    (row,) = reported([answered(200), refusing(2, 100)]).variants
    assert [finding.kind for finding in row.findings] == [FindingKind.RAISED]


def test_a_declared_defect_goes_before_a_limit():
    declared = Declaration(
        known_defects=(KnownDefect(kinds=(FindingKind.RAISED,), reason="too wide", cases=("wide/*",)),)
    )
    (row,) = reported([answered(8), refusing(2, 100)], declaration=declared).variants
    assert row.verdict == "known"


def test_nothing_but_refusals_without_elements_says_why_nothing_was_judged():
    report = reported([refusing(2, 0)])
    (row,) = report.variants
    assert row.verdict == "unsupported"
    assert "refuses inputs without elements" in row.reason
    assert exit_code(report) == 3


def test_an_ordinary_row_holds_without_words():
    (row,) = reported([(case("ties"), measured())]).variants
    assert row.holds is None
