"""The cause of errors that rounding to the input's format explains, and what it must leave to other causes."""

import pytest
from made_findings import at, finding, sum_off, swept, ulp

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.report.causes import causes_of

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]
NEAR = ulp(0.0051, 0.0052, 2.23, 0.502)
FAR = ulp(0.5, 0.25, 1024)
MISSED = sum_off(-0.0005, 0.0002)
HALF = Arithmetic(accumulation="input", intermediate="input")


@pytest.mark.parametrize(
    ("weaker", "words"),
    [
        (Arithmetic(intermediate="input"), "intermediate results seem to be rounded to float16"),
        (Arithmetic(accumulation="input"), "sums seem to be rounded to float16"),
        (HALF, "intermediate results and sums seem to be rounded to float16"),
    ],
)
def test_errors_within_what_rounding_allows_are_laid_to_it_and_to_no_width_or_sum(weaker, words):
    found = [finding(Kind.ULP_EXCEEDS_BOUND, case.id, NEAR) for case in CASES if case.shape[1] > 8]
    found += [finding(Kind.SUM_VIOLATION, case.id, MISSED) for case in CASES if case.shape[1] > 100]
    found += [swept(at(least=9), NEAR), swept(at(least=9), MISSED, Kind.SUM_VIOLATION)]
    (cause,) = causes_of(found, CASES, weaker=weaker)
    assert cause.text.startswith(words)
    assert "float32" in cause.mend
    assert len(cause.findings) == len(found)


@pytest.mark.parametrize("weaker", [None, Arithmetic(lanes=1), Arithmetic(scaled_logits=True)])
def test_without_an_arithmetic_that_rounds_nothing_is_laid_to_rounding(weaker):
    found = [finding(Kind.ULP_EXCEEDS_BOUND, case.id, NEAR) for case in CASES]
    assert not any("rounded" in cause.text for cause in causes_of(found, CASES, weaker=weaker))


def test_columns_that_are_left_out_beyond_a_limit_come_before_a_sum_that_might_be_rounded():
    found = [
        swept(at(least=513), FAR),
        *(finding(Kind.ULP_EXCEEDS_BOUND, c.id, FAR) for c in CASES if c.shape[1] > 512),
    ]
    (cause,) = causes_of(found, CASES, weaker=HALF)
    assert cause.text == (
        "wrong at 513, 1024 and 2049, right at 512: the answers are those without the columns beyond a fixed number"
    )


def test_what_a_probe_shows_far_beyond_rounding_and_other_kinds_keep_their_causes():
    found = [finding(Kind.ULP_EXCEEDS_BOUND, case.id, NEAR) for case in CASES]
    far = finding(Kind.ULP_EXCEEDS_BOUND, "probe/shapes/many", FAR)
    raised = finding(Kind.RAISED, CASES[0].id)
    causes = causes_of([*found, far, raised], CASES, weaker=HALF)
    assert [len(cause.findings) for cause in causes] == [len(found), 1, 1]
    assert "rounded" in causes[0].text
