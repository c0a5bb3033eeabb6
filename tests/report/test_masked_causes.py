"""Rows of -inf alone that give numbers: when a finite number in place of -inf is named although other things are wrong too."""

import pytest
from made_findings import finding, of_hidden_row, ulp

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.facts import Facts
from softcheck.report.causes import causes_of

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]
MASKED = [case for case in CASES if case.family in {"padding", "special"}]


def of_nothing(case, output):
    return finding(Kind.NAN_MISMATCH, case.id, of_hidden_row(output))


LOW = [
    finding(
        Kind.MASKED_NOT_ZERO,
        "finfo-min/plus-min-5/float16",
        Facts(output=1.0, expected=0.0),
        row=1,
    ),
    finding(
        Kind.ULP_EXCEEDS_BOUND,
        "finfo-min/plus-min-5/float16",
        ulp(0.0, 0.25, 1024),
    ),
]
NAN = finding(
    Kind.NAN_MISMATCH,
    "ties/halves-9/float16",
    Facts(output=float("nan"), expected=0.5, reason="finite"),
)
ELSEWHERE = finding(
    Kind.ULP_EXCEEDS_BOUND,
    "ties/halves-9/float16",
    ulp(0.5, 0.25, 1024),
)


def test_equal_outputs_tell_a_finite_number_whatever_else_is_wrong():
    found = [of_nothing(case, 1 / case.shape[1]) for case in MASKED]
    causes = causes_of([*found, *LOW, ELSEWHERE], CASES)
    assert causes[0].text.endswith(
        "a finite number stands for -inf, so that what is hidden counts there, and beside logits as low"
    )
    assert set(causes[0].findings) == {f.id for f in [*found, *LOW]}
    assert causes[1].findings == (ELSEWHERE.id,)


@pytest.mark.parametrize("others", [LOW, [ELSEWHERE]])
def test_a_mask_that_is_ignored_is_not_taken_for_a_finite_number(others):
    found = [of_nothing(case, 0.7 / case.shape[1]) for case in MASKED]
    assert not any("finite number" in cause.text for cause in causes_of([*found, *others], CASES))
    one_column = [of_nothing(case, 1) for case in MASKED if case.shape[1] == 1]
    assert one_column
    assert not any("finite number" in cause.text for cause in causes_of([*one_column, *others], CASES))


def test_hidden_values_in_answers_of_attention_belong_to_the_queries_that_see_none():
    masked = [finding(Kind.NAN_MISMATCH, case.id, of_hidden_row(0.7, query=2)) for case in MASKED]
    mixed = finding(Kind.OUT_OF_RANGE, "shifted/same-row-9/float16", Facts(output=0.6, expected=-0.9, query=5))
    far = finding(Kind.ULP_EXCEEDS_BOUND, mixed.case, ulp(0.6, -0.9, 900))
    (cause,) = causes_of([*masked, mixed, far], CASES, operation="attention")
    assert cause.text.endswith("other answers hold values of keys that are hidden: what is hidden counts")
    assert not cause.mend
    causes = causes_of([*masked, mixed, ELSEWHERE], CASES, operation="attention")
    assert not any("hidden counts" in each.text for each in causes)


def test_zeros_are_named_beside_other_faults():
    found = [of_nothing(case, 0) for case in MASKED]
    for other in (ELSEWHERE, NAN):
        causes = causes_of([*found, other], CASES)
        assert causes[0].text == "rows of -inf alone give 0 rather than NaN"
        assert causes[1].findings == (other.id,)


def test_hidden_logits_that_count_beside_ordinary_ones_are_a_mask_that_is_ignored():
    found = [of_nothing(case, 1 / case.shape[1]) for case in MASKED]
    facts = Facts(output=0.3, expected=0.0)
    ordinary = finding(Kind.MASKED_NOT_ZERO, "padding/trailing-1-of-3/float16", facts, row=0)
    assert not any("finite number" in cause.text for cause in causes_of([*found, *LOW, ordinary], CASES))
    assert not any("finite number" in cause.text for cause in causes_of([*found, *LOW, NAN], CASES))
    of_no_row = finding(Kind.MASKED_NOT_ZERO, "padding/trailing-1-of-3/float16", facts)
    assert not any("finite number" in cause.text for cause in causes_of([*found, of_no_row], CASES))
