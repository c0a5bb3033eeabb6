"""The report of a suite, put together from what its tests have judged."""

import math

import pytest

from softcheck.cases.corpus import load, select
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme, Measurement, unmeasured
from softcheck.report.suite import JudgedTest, decoded, suite_report
from softcheck.run.model import GivenUp
from softcheck.run.patience import Over
from softcheck.run.protocol import Ready
from softcheck.run.session import CaseMeasurement
from softcheck.variants.declaration import Declaration

READY = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
CASES = select(load(["edge"]), dtypes=("float16",), families=("ties",))
INFINITE = Extreme(value=math.inf, row=0, column=0, input_bits="3c00", output_bits="0000")


def result(case, violations=()):
    rows, columns = case.shape
    measured = unmeasured(case.shape, violations) if violations else Measurement(rows=rows, columns=columns, elements=1)
    return CaseMeasurement("a.py:f", case, measured, 0.5)


def judged(dtype="float16", **fields):
    return JudgedTest(ready=READY, variant="a.py:f", dtype=dtype, **fields)


def given_up(cases, *probes):
    over = Over(FindingKind.CRASH, "5 deaths")
    return GivenUp(variant="a.py:f", dtype="float16", over=over, cases=tuple(cases), probes=probes)


def rows_of(*tests):
    drawn = suite_report(tests, command=["pytest"], seed=0, require_all_sizes=False, seconds=1.0)
    return {row.dtype: row for row in drawn.variants}


def test_a_record_arrives_as_it_was_sent_infinities_too():
    measurement = Measurement(rows=1, columns=1, elements=1, max_ulp=INFINITE, max_sum_deviation=math.inf)
    sent = judged(declaration=Declaration(), results=[CaseMeasurement("a.py:f", CASES[0], measurement, 0.5)])
    assert sent.encoded().isascii()
    assert decoded(sent.encoded()) == sent


def test_what_several_tests_have_judged_is_one_row_and_counts_once():
    first = judged(declaration=Declaration(), results=[result(CASES[0]), result(CASES[1])])
    second = judged(declaration=Declaration(), results=[result(CASES[1]), result(CASES[2])])
    assert rows_of(first, second)["float16"].cases_run == 3


def test_a_refusal_in_one_dtype_leaves_the_other_as_it_is():
    right = judged(declaration=Declaration(), results=[result(CASES[0])])
    rows = rows_of(right, judged("float32", refused="no float32 here"))
    assert rows["float16"].verdict == "pass"
    assert (rows["float32"].verdict, rows["float32"].reason) == ("error", "no float32 here")
    assert set(rows) == {"float16", "float32"}


@pytest.mark.parametrize("order", [1, -1])
def test_what_no_test_has_run_is_one_finding_whichever_test_gave_up_first(order):
    crash = (Violation(FindingKind.CRASH, "it died"),)
    first = judged(declaration=Declaration(), results=[result(CASES[0], crash)], given_up=given_up(CASES[1:3]))
    second = judged(declaration=Declaration(), given_up=given_up(CASES[:2], "empties"))
    row = rows_of(*[first, second][::order])["float16"]
    assert row.verdict == "fail"
    (left,) = [f for f in row.findings if f.message.startswith("given up")]
    assert "2 cases and 1 probes were not run" in left.message
