"""Causes of findings: what inputs in common are found, and what is not called a cause."""

import pytest
from made_findings import at, finding, of_hidden_row, sum_off, swept, ulp
from sample_reports import MEASURED

from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import FindingKind as Kind
from softcheck.explain import explanation_of, of_kind, pages
from softcheck.facts import Facts, Sizes, Where
from softcheck.report.causes import causes_of, proposal
from softcheck.report.content import columns
from softcheck.report.evidence import peaks, values_of

CASES = [
    case for case in load(["edge", "regressions"]) if case.dtype == "float16" and case.shape[0] * case.shape[1] <= 2**16
]
STRIDED = [case for case in CASES if not case.layout.is_contiguous(case.shape[1]) and 0 not in case.shape]


def wrong_where(holds, kind=Kind.ULP_EXCEEDS_BOUND, facts=None):
    return [finding(kind, case.id, facts) for case in CASES if 0 not in case.shape and holds(case)]


def is_power(n):
    return n & (n - 1) == 0


def test_zeros_beyond_the_row_are_one_cause_however_many_kinds_show_it():
    found = wrong_where(lambda case: not is_power(case.shape[1]))
    found += wrong_where(lambda case: not is_power(case.shape[1]), Kind.SUM_VIOLATION, sum_off(-0.5))
    (cause,) = causes_of(found, CASES)
    assert cause.text.startswith("wrong at every width that is no power of two (")
    assert "the outputs' sums are too small there" in cause.text
    # Sums that are too small do not tell why.
    assert "other=-float" not in cause.mend
    assert set(cause.findings) == {f.id for f in found}
    assert proposal([cause]) is None


def test_a_largest_width_is_named_and_can_be_declared():
    causes = causes_of(wrong_where(lambda case: case.shape[1] > 512, Kind.UNWRITTEN_OUTPUT), CASES)
    (cause,) = causes
    assert cause.text.endswith("right at 512: columns beyond a fixed number are never written")
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
    ("axis", "text"),
    [
        ("module", "wrong once torch maps the function or the module is copied"),
        ("rows like", "wrong beside a first row of some kind"),
    ],
)
def test_what_only_a_change_or_a_first_row_shows_is_laid_to_it(axis, text):
    facts = Facts(way={axis: "other"})
    found = [
        finding(kind, f"probe/meetings/{axis}=other", facts) for kind in (Kind.ULP_EXCEEDS_BOUND, Kind.SUM_VIOLATION)
    ]
    (cause,) = causes_of(found, CASES)
    assert text in cause.text
    assert len(cause.findings) == 2
    everywhere = wrong_where(lambda case: True)
    assert not any(text in cause.text for cause in causes_of(everywhere, CASES))


def test_a_dimension_that_is_ignored_is_a_cause_of_its_own():
    facts = Facts(way={"option": "axis", "answers_of": "the last dimension"})
    (cause,) = causes_of([finding(Kind.ULP_EXCEEDS_BOUND, "probe/meetings/dims=2 over 0", facts)], CASES)
    assert cause.text.startswith("axis is ignored")
    other = finding(Kind.ULP_EXCEEDS_BOUND, "probe/meetings/dims=2 over 0", Facts(way={"option": "axis"}))
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
    over = wrong_where(lambda case: peaks(values_of(case)).max(initial=0.0) > 11.0, Kind.NAN_MISMATCH)
    under = wrong_where(lambda case: peaks(values_of(case)).min(initial=0.0) < -87.0, Kind.NAN_MISMATCH)
    for found, words in (
        (over, "the exponential overflows"),
        ([*over, *under], "the exponential overflows or underflows"),
    ):
        (cause,) = causes_of(found, CASES)
        assert cause.text.endswith(words)
        assert cause.mend == "subtract the row's maximum before the exponential"


def test_rows_of_minus_infinity_that_give_zero_can_be_declared():
    (cause,) = causes_of([finding(Kind.NAN_MISMATCH, "padding/all-of-3/float16", of_hidden_row(0.0))], CASES)
    assert cause.declare == 'fully_masked="zero"'
    assert cause.text == "rows of -inf alone give 0 rather than NaN"


def test_queries_without_keys_that_give_numbers_come_before_the_sizes_at_which_they_show():
    case = next(case for case in CASES if case.id == "padding/all-of-3/float16")
    facts = of_hidden_row(334.0, query=2)
    found = [
        finding(Kind.NAN_MISMATCH, case.id, facts),
        swept(at(ranges=((3, 5), (15, 15))), facts, Kind.NAN_MISMATCH),
    ]
    (cause,) = causes_of(found, CASES)
    assert cause.text.startswith("queries that see no key give numbers rather than NaN")
    assert not cause.declare
    assert len(cause.findings) == 2
    elsewhere = finding(Kind.ULP_EXCEEDS_BOUND, case.id, Facts(output=2.0, expected=1.0, query=0))
    assert not any("no key" in cause.text for cause in causes_of([*found, elsewhere], CASES))


def test_widths_that_are_all_of_them_together_are_no_cause():
    far = swept(at(least=65), ulp(2.0, 1.0, 900), right=64)
    nan = finding(Kind.NAN_MISMATCH, "probe/sizes/columns-1-65", Facts(where=at(most=64)))
    assert not any("wrong at" in cause.text for cause in causes_of([nan, far], CASES))
    assert causes_of([far], CASES)[0].text.startswith("wrong at 513, 1024 and 2049, right at 64")


def test_ranges_at_which_some_calls_are_wrong_say_nothing_of_widths():
    some = Where(any_of=((Sizes(ranges=((4, 33), (128, 255), (385, 511))),),), partly=True)
    (cause,) = causes_of([swept(some, Facts())], CASES)
    assert "wrong at" not in cause.text


def test_targets_that_are_no_columns_come_last_with_what_could_be_declared():
    stored = [finding(Kind.OUT_OF_BOUNDS_WRITE, f"probe/invalid_targets/{n}") for n in range(2)]
    wrong = finding(Kind.WRONG_GRADIENT, "probe/gradients/packed-3x129")
    causes = causes_of([*stored, wrong], CASES)
    assert [len(cause.findings) for cause in causes] == [1, 2]
    assert causes[1].text.startswith("targets that are no columns")
    assert proposal(causes) is None
    assert proposal(causes[1:]) == (
        'right on targets that are columns; if that is the contract, declare it: @variant(parameters={"invalid_target": "undefined"}), '
        "or --declare 'invalid_target=undefined'"
    )


def test_rows_that_overflow_on_the_way_to_a_cause_are_no_warning():
    """Warnings are errors here: half of such rows are farther apart than float64 reaches."""
    wide = [case for case in load(builtin_names()) if case.dtype == "float64" and case.family in {"huge", "finfo-min"}]
    found = [finding(Kind.NAN_MISMATCH, case.id) for case in wide]
    assert sum(len(cause.findings) for cause in causes_of(found, wide, dtype="float64")) == len(found) > 0


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
    small = causes_of([finding(Kind.SUM_VIOLATION, c.id, sum_off(-0.5)) for c in odd], cases)
    large = causes_of([finding(Kind.SUM_VIOLATION, c.id, sum_off(0.5)) for c in odd], cases)
    assert small[0].text.startswith("wrong at every width that is no power of two")
    assert large[0].text.startswith("wrong at odd N")


def test_a_function_that_refuses_strided_input_has_one_cause():
    found = [finding(Kind.RAISED, case.id) for case in STRIDED]
    trials = (
        "guard_bands/gaps/3x129",
        "addresses/row-stride",
    )
    found += [finding(Kind.RAISED, f"probe/{trial}") for trial in trials]
    found += [finding(Kind.RAISED, "probe/meetings/layout=transposed", Facts(way={"layout": "transposed"}))]
    (cause,) = causes_of(found, CASES)
    assert (cause.text, cause.declare) == ("raises on strided inputs alone", 'layouts=["contiguous"]')
    assert len(cause.findings) == len(found)
    elsewhere = finding(Kind.RAISED, next(c.id for c in CASES if c not in STRIDED and 0 not in c.shape))
    assert not any("strided" in each.text for each in causes_of([*found, elsewhere], CASES))


def test_sums_that_are_too_small_beyond_a_tile_do_not_tell_why():
    found = wrong_where(lambda case: case.shape[1] > 128, Kind.SUM_VIOLATION, sum_off(-0.6))
    (cause,) = causes_of(found, CASES)
    assert "right at 128: the outputs' sums are too small there" in cause.text
    assert "rescale" not in cause.text + cause.mend


def test_a_class_of_shapes_is_named_where_every_case_of_it_is_wrong():
    def holds(case):
        return case.shape[0] >= 3 and case.shape[1] > 100

    (cause,) = causes_of(wrong_where(holds), CASES)
    assert cause.text.startswith("wrong at rows > 2 and columns > ")
    (_, right) = [case for case in CASES if holds(case)][:2]
    found = [f for f in wrong_where(holds) if f.case != right.id]
    assert not any("rows" in cause.text for cause in causes_of(found, CASES))
    # What was cut says nothing of its other rows.
    assert not any("rows" in each.text for each in causes_of(wrong_where(holds), CASES, {c.id: 2 for c in CASES}))
