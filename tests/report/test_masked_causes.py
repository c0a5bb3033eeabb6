"""Rows of -inf alone that give numbers: when a finite number in place of -inf is named although other things are wrong too."""

import pytest

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.report.causes import causes_of
from softcheck.report.model import Finding

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and 0 not in case.shape]
MASKED = [case for case in CASES if case.family in {"padding", "special"}]


def finding(kind, case, message, row=None):
    return Finding(id=f"{kind} {case}", kind=kind, case=case, message=message, reproduce="softcheck", row=row)


def of_nothing(case, output):
    return finding(
        Kind.NAN_MISMATCH,
        case.id,
        f"row 0, column 0, input -inf (bits fc00): output {output} (bits 3800, 0x1p-1), expected nan: every logit of the row is -inf",
    )


LOW = [
    finding(
        Kind.MASKED_NOT_ZERO,
        "finfo-min/plus-min-5/float16",
        "row 1, column 0, input -inf: output 1, expected exactly 0 for a -inf logit",
        row=1,
    ),
    finding(
        Kind.ULP_EXCEEDS_BOUND,
        "finfo-min/plus-min-5/float16",
        "row 1: output 0 (bits 0), expected 0.25 (0x1p-2): 1024 ULP, bound 0.5 ULP",
    ),
]
NAN = finding(
    Kind.NAN_MISMATCH,
    "ties/halves-9/float16",
    "row 0: output nan (bits 7e00), expected 0.5 (0x1p-1): the row's answer is finite",
)
ELSEWHERE = finding(
    Kind.ULP_EXCEEDS_BOUND,
    "ties/halves-9/float16",
    "row 0: output 0.5 (bits 0), expected 0.25 (0x1p-2): 1024 ULP, bound 0.5 ULP",
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


def test_zeros_are_named_beside_other_faults():
    found = [of_nothing(case, 0) for case in MASKED]
    for other in (ELSEWHERE, NAN):
        causes = causes_of([*found, other], CASES)
        assert causes[0].text == "rows of -inf alone give 0 rather than NaN"
        assert causes[1].findings == (other.id,)


def test_hidden_logits_that_count_beside_ordinary_ones_are_a_mask_that_is_ignored():
    found = [of_nothing(case, 1 / case.shape[1]) for case in MASKED]
    message = "row 0, column 2, input -inf (bits fc00): output 0.3, expected exactly 0 for a -inf logit"
    ordinary = finding(Kind.MASKED_NOT_ZERO, "padding/trailing-1-of-3/float16", message, row=0)
    assert not any("finite number" in cause.text for cause in causes_of([*found, *LOW, ordinary], CASES))
    assert not any("finite number" in cause.text for cause in causes_of([*found, *LOW, NAN], CASES))
    of_no_row = finding(Kind.MASKED_NOT_ZERO, "padding/trailing-1-of-3/float16", message)
    assert not any("finite number" in cause.text for cause in causes_of([*found, of_no_row], CASES))
