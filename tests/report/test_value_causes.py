"""Causes of values: a property of rows that all wrong cases have and no right one, told as a predicate of values."""

from made_findings import finding

from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.report.causes import causes_of
from softcheck.report.evidence import is_looked_at, peaks, values_of

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and is_looked_at(case)]


def causes(cases, holds, **options):
    found = [finding(Kind.ULP_EXCEEDS_BOUND, case.id) for case in cases if holds(case)]
    return [cause.text for cause in causes_of(found, cases, **options)]


def largest(case):
    return peaks(values_of(case)).max(initial=0.0)


def test_a_logit_beyond_a_limit_is_named_with_the_largest_that_was_right():
    # Not told by an overflow: kinds say nothing of infinities.
    (text,) = causes(CASES, lambda case: largest(case) > 60.0)
    assert text.startswith("wrong wherever a logit is ")
    assert "right in the " in text


def test_logits_are_measured_by_the_cap_that_is_declared():
    cap = 2.0
    (text,) = causes(
        CASES,
        lambda case: abs(values_of(case)[abs(values_of(case)) < 1e30]).max(initial=0.0) > 30 * cap,
        parameters={"softcap": cap},
    )
    assert "times the cap or more" in text


def test_targets_that_are_ignored_are_named():
    cases = [case for case in load(["cross_entropy"]) if case.dtype == "float16" and is_looked_at(case)]

    def ignores(case):
        named = case.operands
        return (
            named is not None
            and named.target is not None
            and named.parameters.get("ignore_index", -100) in named.target
        )

    assert sum(map(ignores, cases)) >= 3
    (text, *_) = causes(cases, ignores, operation="cross_entropy")
    assert text.startswith("wrong wherever a target equals ignore_index (")


def test_what_some_right_case_has_too_is_no_cause():
    wrong = [case for case in CASES if largest(case) > 60.0]
    texts = causes(CASES, lambda case: case in wrong[1:] or case.id == CASES[0].id)
    assert not any("wrong wherever" in text for text in texts)
