"""Causes of findings: what inputs in common are found, and what is not called a cause."""

import pytest
from sample_reports import MEASURED

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.explain import explanation_of, of_kind, pages
from softcheck.report.causes import causes_of, proposal
from softcheck.report.content import columns
from softcheck.report.logits import peaks
from softcheck.report.model import Finding

CASES = [
    case for case in load(["edge", "regressions"]) if case.dtype == "float16" and case.shape[0] * case.shape[1] <= 2**16
]
STRIDED = [case for case in CASES if not case.layout.is_contiguous(case.shape[1]) and 0 not in case.shape]


def finding(kind, case, message="row 0: wrong", known=None):
    return Finding(id=f"{kind} {case}", kind=kind, case=case, message=message, reproduce="softcheck", known=known)


def wrong_where(holds, kind=Kind.ULP_EXCEEDS_BOUND, message="row 0: wrong"):
    return [finding(kind, case.id, message) for case in CASES if 0 not in case.shape and holds(case)]


def is_power(n):
    return n & (n - 1) == 0


def test_zeros_beyond_the_row_are_one_cause_however_many_kinds_show_it():
    found = wrong_where(lambda case: not is_power(case.shape[1]))
    found += wrong_where(
        lambda case: not is_power(case.shape[1]), Kind.SUM_VIOLATION, "row 0: the outputs' sum misses 1 by -0.5"
    )
    (cause,) = causes_of(found, CASES)
    assert cause.text == "wrong at every width that is no power of two: lanes beyond the row enter the sum"
    assert "other=-float" in cause.mend
    assert set(cause.findings) == {f.id for f in found}
    assert proposal([cause]) is None


def test_a_largest_width_is_named_and_can_be_declared():
    causes = causes_of(wrong_where(lambda case: case.shape[1] > 512, Kind.UNWRITTEN_OUTPUT), CASES)
    assert [cause.text for cause in causes] == ["wrong at N > 512: columns beyond a fixed number are never written"]
    assert "@variant(max_columns=512), or --declare 'max_columns=512'" in proposal(causes)


def test_what_is_wrong_on_strided_and_empty_inputs_and_beyond_2_to_the_31_can_be_declared_together():
    found = [finding(Kind.WRONG_LAYOUT, case.id) for case in STRIDED[:5]]
    found += [finding(Kind.RAISED, "empty/10x0/float16"), finding(Kind.RAISED, "probe/empties/5x0")]
    found += [finding(Kind.OUT_OF_BOUNDS_READ, "probe/addresses/row-stride-2^30")]
    causes = causes_of(found, CASES)
    assert [len(cause.findings) for cause in causes] == [5, 2, 1]
    words = proposal(causes)
    assert words.startswith("right on contiguous input, non-empty input, fewer than 2^31 elements")
    assert "--declare 'layouts=contiguous,empty=False,max_elements=2**31'" in words


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        ("torch_transforms/module/cast", "wrong once torch maps the function or the module is copied"),
        ("first_rows/first", "wrong beside a first row of some kind"),
    ],
)
def test_what_only_a_change_or_a_first_row_shows_is_laid_to_it(probe, text):
    found = [finding(kind, f"probe/{probe}") for kind in (Kind.ULP_EXCEEDS_BOUND, Kind.SUM_VIOLATION)]
    (cause,) = causes_of(found, CASES)
    assert text in cause.text
    assert len(cause.findings) == 2
    everywhere = wrong_where(lambda case: True)
    assert not any(text in cause.text for cause in causes_of(everywhere, CASES))


def test_a_dimension_that_is_ignored_is_a_cause_of_its_own():
    words = "with axis=0 of 2 dimensions, where the answers are those of axis=-1: row 0: wrong"
    (cause,) = causes_of([finding(Kind.ULP_EXCEEDS_BOUND, "probe/torch_options/dim/2-0", words)], CASES)
    assert cause.text.startswith("axis is ignored")
    other = finding(Kind.ULP_EXCEEDS_BOUND, "probe/torch_options/dim/2-0", "with axis=0 of 2 dimensions: row 0: wrong")
    assert not any("is ignored" in cause.text for cause in causes_of([other], CASES))


def test_a_proposal_is_made_only_where_it_explains_everything():
    found = [finding(Kind.RAISED, "empty/10x0/float16"), finding(Kind.NONDETERMINISTIC, "probe/determinism/repeated")]
    assert proposal(causes_of(found, CASES)) is None
    assert proposal(()) is None


def test_faults_without_inputs_in_common_are_grouped_by_kind():
    found = wrong_where(lambda case: int(case.digest[:4], 16) % 3 == 0)
    causes = causes_of(found, CASES)
    assert [cause.text for cause in causes] == [of_kind(Kind.ULP_EXCEEDS_BOUND).meaning]
    assert causes_of([finding(Kind.CRASH, CASES[0].id)], CASES)[0].text == of_kind(Kind.CRASH).meaning


def test_a_fault_on_contiguous_input_too_is_not_laid_to_strides():
    contiguous = next(case for case in CASES if case.layout.is_contiguous(case.shape[1]) and 0 not in case.shape)
    found = [finding(Kind.ULP_EXCEEDS_BOUND, case.id) for case in [contiguous, *STRIDED]]
    assert not any("strided" in cause.text for cause in causes_of(found, CASES))


def test_an_overflowing_exponential_is_named_by_the_logits_that_show_it():
    over = wrong_where(lambda case: (peaks(case) or (0.0, 0.0))[1] > 11.0, Kind.NAN_MISMATCH)
    under = wrong_where(lambda case: (peaks(case) or (0.0, 0.0))[0] < -87.0, Kind.NAN_MISMATCH)
    for found, words in (
        (over, "the exponential overflows"),
        ([*over, *under], "the exponential overflows or underflows"),
    ):
        (cause,) = causes_of(found, CASES)
        assert cause.text.endswith(words)
        assert cause.mend == "subtract the row's maximum before the exponential"


def test_rows_of_minus_infinity_that_give_zero_can_be_declared():
    message = "row 0, column 0, input -inf (bits fc00): output 0 (bits 0000, 0x0.0p+0), expected nan: every logit of the row is -inf"
    (cause,) = causes_of([finding(Kind.NAN_MISMATCH, "padding/all-of-3/float16", message)], CASES)
    assert cause.declare == 'fully_masked="zero"'
    assert cause.text == "rows of -inf alone give 0 rather than NaN"


def test_queries_without_keys_that_give_numbers_come_before_the_sizes_at_which_they_show():
    case = next(case for case in CASES if case.id == "padding/all-of-3/float16")
    message = "row 0, query 2, element 0: output 334 (bits 43a7), expected nan: every logit of the row is -inf"
    found = [
        finding(Kind.NAN_MISMATCH, case.id, message),
        finding(
            Kind.NAN_MISMATCH, "probe/sizes/columns-1-100", f"N in 3-5, 15 (10 of 26 widths tried); at N = 3: {message}"
        ),
    ]
    (cause,) = causes_of(found, CASES)
    assert cause.text.startswith("queries that see no key give numbers rather than NaN")
    assert not cause.declare
    assert len(cause.findings) == 2
    elsewhere = finding(Kind.ULP_EXCEEDS_BOUND, case.id, "row 0, query 0, element 1: output 2, expected 1")
    assert not any("no key" in cause.text for cause in causes_of([*found, elsewhere], CASES))


def test_words_behind_the_reason_do_not_hide_rows_of_minus_infinity():
    message = "row 0, column 0, input -inf (bits fc00): output 0 (bits 0000, 0x0.0p+0), expected nan: every logit of the row is -inf"
    found = [
        finding(Kind.NAN_MISMATCH, "probe/volume/random", f"{message}; the row by itself is wrong too"),
        finding(Kind.NAN_MISMATCH, "padding/all-of-3/float16", message),
    ]
    (cause,) = causes_of(found, CASES)
    assert (cause.declare, len(cause.findings)) == ('fully_masked="zero"', 2)


def swept(kind, words):
    return finding(kind, "probe/sizes/columns-1-100", f"{words}; at N = 3: row 0: output 2, expected 1")


def test_widths_that_are_all_of_them_together_are_no_cause():
    nan = swept(Kind.NAN_MISMATCH, "N <= 64 (14 of 38 widths tried, 1 to 4097)")
    far = swept(Kind.ULP_EXCEEDS_BOUND, "N > 64 (24 of 38 widths tried, 1 to 4097)")
    assert not any("wrong at" in cause.text for cause in causes_of([nan, far], CASES))
    assert causes_of([far], CASES)[0].text.startswith("wrong at N > 64")


def test_ranges_at_which_some_calls_are_wrong_say_nothing_of_widths():
    some = "N in 4-33, 128-255, 385-511 with some row counts (80 of 120 widths tried, 1 to 4097)"
    (cause,) = causes_of([swept(Kind.ULP_EXCEEDS_BOUND, some)], CASES)
    assert "wrong at" not in cause.text


def test_targets_that_are_no_columns_come_last_with_what_could_be_declared():
    read = [finding(Kind.OUT_OF_BOUNDS_READ, f"probe/invalid_targets/{n}", "with the target -1") for n in range(2)]
    wrong = finding(Kind.WRONG_GRADIENT, "probe/gradients/packed-3x129", "row 1, column 4")
    causes = causes_of([*read, wrong], CASES)
    assert [len(cause.findings) for cause in causes] == [1, 2]
    assert causes[1].text.startswith("targets that are no columns")
    assert proposal(causes) is None
    assert proposal(causes[1:]) == (
        'right on targets that are columns; if that is the contract, declare it: @variant(parameters={"invalid_target": "undefined"}), '
        "or --declare 'invalid_target=undefined'"
    )


def test_declared_defects_are_no_cause():
    assert causes_of([finding(Kind.RAISED, CASES[0].id, known="declared")], CASES) == ()


def test_every_word_of_a_report_is_explained():
    known = pages()
    assert {str(kind) for kind in Kind} <= known.keys()
    titles = {column.title.replace("/ ", "/") for column in columns(MEASURED)} - {"variant", "verdict"}
    assert titles <= known.keys()
    for kind in Kind:
        found = of_kind(kind)
        assert found.meaning
        assert found.cause
        assert found.mend
        assert found.example
    assert "# wrong layout" in explanation_of("Wrong-Layout").text("wrong layout")


def test_an_unknown_word_gives_near_ones():
    from softcheck.errors import UsageError

    with pytest.raises(UsageError, match="did you mean 'wrong_layout'"):
        explanation_of("wrong_layuot")


def test_widths_beside_powers_of_two_alone_are_told_by_their_sums():
    cases = [case for case in CASES if case.family == "widths"]
    odd = [case for case in cases if case.shape[1] % 2 and case.shape[1] > 1]
    small = causes_of(
        [finding(Kind.SUM_VIOLATION, c.id, "row 0: the outputs' sum misses 1 by -0.5") for c in odd], cases
    )
    large = causes_of(
        [finding(Kind.SUM_VIOLATION, c.id, "row 0: the outputs' sum misses 1 by +0.5") for c in odd], cases
    )
    assert small[0].text.startswith("wrong at every width that is no power of two")
    assert large[0].text.startswith("wrong at odd N")


def test_a_function_that_refuses_strided_input_has_one_cause():
    found = [finding(Kind.RAISED, case.id) for case in STRIDED]
    trials = (
        "guard_bands/gaps/3x129",
        "layouts/strided/row-step-129",
        "input_untouched/called/transposed",
        "addresses/row-stride",
    )
    found += [finding(Kind.RAISED, f"probe/{trial}") for trial in trials]
    (cause,) = causes_of(found, CASES)
    assert (cause.text, cause.declare) == ("raises on strided inputs alone", 'layouts=["contiguous"]')
    assert len(cause.findings) == len(found)
    elsewhere = finding(Kind.RAISED, next(c.id for c in CASES if c not in STRIDED and 0 not in c.shape))
    assert not any("strided" in each.text for each in causes_of([*found, elsewhere], CASES))


def test_sums_that_are_too_small_beyond_a_tile_are_laid_to_the_parts_of_a_row():
    found = wrong_where(
        lambda case: case.shape[1] > 128, Kind.SUM_VIOLATION, "row 0: the outputs' sum misses 1 by -0.6"
    )
    (cause,) = causes_of(found, CASES)
    assert (
        cause.text
        == "wrong at N > 128: the parts of a row do not add up, as where a running sum is not rescaled to a new maximum"
    )


def test_a_class_of_shapes_is_named_where_every_case_of_it_is_wrong():
    def holds(case):
        return case.shape[0] >= 3 and case.shape[1] > 100

    (cause,) = causes_of(wrong_where(holds), CASES)
    assert cause.text.startswith("wrong at rows >= 3 and columns > ")
    (_, right) = [case for case in CASES if holds(case)][:2]
    found = [f for f in wrong_where(holds) if f.case != right.id]
    assert not any("rows" in cause.text for cause in causes_of(found, CASES))
    # What was cut says nothing of its other rows.
    assert not any("rows" in each.text for each in causes_of(wrong_where(holds), CASES, {c.id: 2 for c in CASES}))
