"""Writes out of bounds lead, crashes stand below them, and a crash tells nothing of values."""

from made_findings import finding

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.explain import of_kind
from softcheck.facts import Facts
from softcheck.report.causes import causes_of

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]


CRASHES = [finding(Kind.CRASH, case.id) for case in CASES[:5]]
CRASHES.append(finding(Kind.CRASH, "probe/first_rows/nan"))
WRITE = finding(Kind.OUT_OF_BOUNDS_WRITE, "probe/guard_bands/output/3x129")


def test_a_write_out_of_bounds_leads_and_crashes_stand_below_it():
    wrong = [finding(Kind.NAN_MISMATCH, case.id) for case in CASES[5:9]]
    causes = causes_of([*CRASHES, *wrong, WRITE], CASES)
    assert [cause.findings for cause in causes[:2]] == [(WRITE.id,), tuple(f.id for f in CRASHES)]
    assert causes[0].text == of_kind(Kind.OUT_OF_BOUNDS_WRITE).meaning
    assert "write out of bounds above" in causes[1].text
    assert len(causes[2].findings) == len(wrong)


def test_crashes_without_a_write_are_crashes_alone_and_no_first_row_is_blamed():
    (cause,) = causes_of(CRASHES, CASES)
    assert cause.text == of_kind(Kind.CRASH).meaning
    assert len(cause.findings) == len(CRASHES)
    wrong = finding(Kind.ULP_EXCEEDS_BOUND, "probe/meetings/rows like=nan", Facts(way={"rows like": "nan"}))
    causes = causes_of([*CRASHES, wrong], CASES)
    assert [c.findings for c in causes if "first row" in c.text] == [(wrong.id,)]


def test_writes_of_invalid_targets_and_far_addresses_explain_no_crash():
    for probe in ("invalid_targets/columns", "addresses/row-stride-2^30"):
        causes = causes_of([*CRASHES, finding(Kind.OUT_OF_BOUNDS_WRITE, f"probe/{probe}")], CASES)
        assert not any("above" in cause.text for cause in causes)
