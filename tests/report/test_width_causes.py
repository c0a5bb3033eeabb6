"""Causes by widths: which evidence supports a limit, and which contradicts it."""

import pytest
from made_findings import at, finding, sum_off, swept, ulp

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.facts import Sizes, Where
from softcheck.report.causes import causes_of, proposal

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]


BEYOND_512 = at(least=513)
TOLD = "wrong at 513, 1024 and 2049, right at 512"

LARGE = ulp(0.5, 0.25, 1024)
SMALL = ulp(0.25, 0.5, 512)


def wrong_beyond(width, facts):
    return [finding(Kind.ULP_EXCEEDS_BOUND, case.id, facts) for case in CASES if case.shape[1] > width]


@pytest.mark.parametrize(
    ("operation", "witness", "text"),
    [
        ("softmax", LARGE, "the answers are those without the columns beyond a fixed number"),
        ("log_softmax", ulp(-3.5, -4.25, 700), "the answers are those without the columns beyond a fixed number"),
        ("logsumexp", SMALL, "the answers are those without the columns beyond a fixed number"),
        ("attention", SMALL, "such errors show at no other width that was tried"),
        ("softmax", SMALL, "such errors show at no other width that was tried"),
        ("cross_entropy", LARGE, "such errors show at no other width that was tried"),
    ],
)
def test_columns_are_left_out_only_where_errors_have_the_sign_of_it(operation, witness, text):
    found = [swept(BEYOND_512, witness), *wrong_beyond(512, witness)]
    (cause,) = causes_of(found, CASES, operation=operation)
    assert cause.text == f"{TOLD}: {text}"
    assert "max_columns=512" in proposal([cause])


def test_a_probability_of_zero_beyond_the_limit_is_a_column_that_is_left_out():
    witness = ulp(0.0, 0.25, 1024)
    for column, text in (
        (700, "the answers are those without the columns beyond a fixed number"),
        (3, "such errors show at no other width that was tried"),
    ):
        (cause,) = causes_of([swept(BEYOND_512, witness, column=column)], CASES)
        assert cause.text == f"{TOLD}: {text}"


@pytest.mark.parametrize(
    ("where", "right"),
    [
        (at(least=3), 2),
        (Where(any_of=((Sizes(least=5),),), partly=True), 4),
        (at(ranges=((3, 5), (15, 15))), 2),
        (Where(any_of=((Sizes(least=513),), (Sizes(ranges=((3, 3),)),))), 2),
        (at(of="elements", least=2), None),
    ],
)
def test_what_is_wrong_at_nearly_all_widths_or_at_no_class_of_them_is_no_cause_of_widths(where, right):
    (cause,) = causes_of([swept(where, LARGE, right=right), *wrong_beyond(2, LARGE)], CASES)
    assert "wrong at" not in cause.text


def test_rounding_that_shows_at_some_widths_is_no_cause_of_widths():
    for where in (at(ranges=((127, 127),)), BEYOND_512, at(modulus=2, remainder=1)):
        (cause,) = causes_of([swept(where, ulp(0.0004106, 0.0004102, 1.516, 1.453))], CASES)
        assert "wrong at" not in cause.text
    (cause,) = causes_of([swept(at(ranges=((127, 127),)), LARGE, wrong=(127,), right=65)], CASES)
    assert (
        cause.text
        == "wrong at N = 127 (1 of 19 widths tried, 1 to 2049): such errors show at no other width that was tried"
    )


def test_cases_of_other_widths_that_are_wrong_too_contradict_a_limit():
    found = [swept(BEYOND_512, LARGE), *wrong_beyond(16, LARGE)]
    assert not any("wrong at" in cause.text for cause in causes_of(found, CASES))


def test_sums_that_miss_by_rounding_or_to_either_side_have_no_cause_of_widths():
    def missing(by):
        return swept(BEYOND_512, sum_off(by, 0.0003), Kind.SUM_VIOLATION)

    def text(by):
        return causes_of([missing(by)], CASES)[0].text

    assert "the outputs' sums are too small there" in text(-0.5)
    assert "the answers are those without the columns beyond a fixed number" in text(0.5)
    assert "wrong at" not in text(-0.0004)


def test_shapes_are_no_cause_of_rounding_or_of_what_all_but_the_smallest_show():
    def of_larger(least, facts):
        found = [
            finding(Kind.ULP_EXCEEDS_BOUND, case.id, facts) for case in CASES if case.shape[0] * case.shape[1] > least
        ]
        return [cause.text for cause in causes_of(found, CASES, operation="attention")]

    assert any("a path for such shapes" in text for text in of_larger(512, LARGE))
    assert not any("such shapes" in text for text in of_larger(512, ulp(0.5, 0.4999, 0.7)))
    assert not any("wrong at" in text for text in of_larger(4, LARGE))


def test_without_a_sweep_the_narrowest_wrong_cases_tell_rounding_that_grows_with_the_row():
    def of_wider(narrow):
        wider = [case for case in CASES if case.shape[1] > 512]
        least = min(case.shape[1] for case in wider)
        found = [finding(Kind.ULP_EXCEEDS_BOUND, c.id, narrow if c.shape[1] == least else LARGE) for c in wider]
        return [cause.text for cause in causes_of(found, CASES)]

    assert any("without the columns" in text for text in of_wider(LARGE))
    assert not any("without the columns" in text for text in of_wider(ulp(0.5, 0.4999, 0.7)))
