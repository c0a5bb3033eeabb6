"""Causes by widths: which evidence supports a limit, and which contradicts it."""

import pytest

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.report.causes import causes_of, proposal
from softcheck.report.model import Finding

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]


def finding(kind, case, message, column=None):
    return Finding(id=f"{kind} {case}", kind=kind, case=case, message=message, reproduce="softcheck", column=column)


def swept(words, witness, kind=Kind.ULP_EXCEEDS_BOUND, column=None):
    return finding(
        kind, "probe/sizes/columns-1-65", f"{words} (7 of 19 widths tried, 1 to 2049); at N = 513: {witness}", column
    )


def ulp(output, expected, error, bound=0.5):
    return f"row 0, column 3, input 1 (bits 3c00): output {output} (bits 1933), expected {expected} (0x1p-9): {error} ULP, bound {bound} ULP"


LARGE = ulp("0.5", "0.25", "1024")
SMALL = ulp("0.25", "0.5", "512")


def wrong_beyond(width, message):
    return [finding(Kind.ULP_EXCEEDS_BOUND, case.id, message) for case in CASES if case.shape[1] > width]


@pytest.mark.parametrize(
    ("operation", "witness", "text"),
    [
        ("softmax", LARGE, "columns beyond a fixed number are left out"),
        ("log_softmax", ulp("-3.5", "-4.25", "700"), "columns beyond a fixed number are left out"),
        ("logsumexp", SMALL, "columns beyond a fixed number are left out"),
        ("attention", SMALL, "keys beyond a fixed number are left out"),
        ("attention", ulp("0.25", "0.27", "20"), "such errors show at no other width that was tried"),
        ("softmax", SMALL, "such errors show at no other width that was tried"),
        ("cross_entropy", LARGE, "such errors show at no other width that was tried"),
    ],
)
def test_columns_are_left_out_only_where_errors_have_the_sign_of_it(operation, witness, text):
    found = [swept("N > 512", witness), *wrong_beyond(512, witness)]
    (cause,) = causes_of(found, CASES, operation=operation)
    assert cause.text == f"wrong at N > 512: {text}"
    assert (proposal([cause]) is not None) == ("left out" in text)


def test_a_probability_of_zero_beyond_the_limit_is_a_column_that_is_left_out():
    witness = ulp("0", "0.25", "1024")
    for column, text in (
        (700, "columns beyond a fixed number are left out"),
        (3, "such errors show at no other width that was tried"),
    ):
        (cause,) = causes_of([swept("N > 512", witness, column=column)], CASES)
        assert cause.text == f"wrong at N > 512: {text}"


@pytest.mark.parametrize("words", ["N > 2", "N >= 3", "N > 4 with some row counts", "N in 3-5, 15", "N > 512 or N = 3"])
def test_what_is_wrong_at_nearly_all_widths_or_at_no_class_of_them_is_no_cause_of_widths(words):
    (cause,) = causes_of([swept(words, LARGE), *wrong_beyond(2, LARGE)], CASES)
    assert "wrong at" not in cause.text


def test_rounding_that_shows_at_some_widths_is_no_cause_of_widths():
    for words in ("N = 127", "N > 512", "odd N"):
        (cause,) = causes_of([swept(words, ulp("0.0004106", "0.0004102", "1.516", 1.453))], CASES)
        assert "wrong at" not in cause.text
    (cause,) = causes_of([swept("N = 127", LARGE)], CASES)
    assert cause.text == "wrong at N = 127: such errors show at no other width that was tried"


def test_cases_of_other_widths_that_are_wrong_too_contradict_a_limit():
    found = [swept("N > 512", LARGE), *wrong_beyond(16, LARGE)]
    assert not any("wrong at" in cause.text for cause in causes_of(found, CASES))


def test_sums_that_miss_by_rounding_or_to_either_side_are_not_laid_to_the_parts_of_a_row():
    def missing(by):
        return swept(
            "N > 512",
            f"row 0: the outputs' sum misses 1 by {by} (0x1p-1), expected at most 0.0003 (0x1p-12)",
            Kind.SUM_VIOLATION,
        )

    def text(by):
        return causes_of([missing(by)], CASES)[0].text

    assert "the parts of a row do not add up" in text("-0.5")
    assert "columns beyond a fixed number are left out" in text("+0.5")
    assert "wrong at" not in text("-0.0004")


def test_shapes_are_no_cause_of_rounding_or_of_what_all_but_the_smallest_show():
    def of_larger(least, message):
        found = [
            finding(Kind.ULP_EXCEEDS_BOUND, case.id, message) for case in CASES if case.shape[0] * case.shape[1] > least
        ]
        return [cause.text for cause in causes_of(found, CASES, operation="attention")]

    assert any("a path for such shapes" in text for text in of_larger(512, LARGE))
    assert not any("such shapes" in text for text in of_larger(512, ulp("0.5", "0.4999", "0.7")))
    assert not any("wrong at" in text for text in of_larger(4, LARGE))


def test_without_a_sweep_the_narrowest_wrong_cases_tell_rounding_that_grows_with_the_row():
    def of_wider(narrow):
        wider = [case for case in CASES if case.shape[1] > 512]
        least = min(case.shape[1] for case in wider)
        found = [finding(Kind.ULP_EXCEEDS_BOUND, c.id, narrow if c.shape[1] == least else LARGE) for c in wider]
        return [cause.text for cause in causes_of(found, CASES)]

    assert any("left out" in text for text in of_wider(LARGE))
    assert not any("left out" in text for text in of_wider(ulp("0.5", "0.4999", "0.7")))
