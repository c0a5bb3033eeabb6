"""Refusals of every larger size are a limit; others are findings."""

import numpy as np
import pytest
from msgspec.structs import replace

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Refusal, Violation
from softcheck.judge.measurement import unmeasured
from softcheck.run.session import CaseMeasurement
from softcheck.run.size_limits import size_limits


def on(rows, columns, *violations):
    bits = np.zeros((rows, columns), dtype=np.uint16)
    case = case_from_bits(bits, "float16", provenance="test", name=f"{rows}x{columns}")
    found = unmeasured((rows, columns), violations)
    return CaseMeasurement("v", case, found if violations else replace(found, unjudged_rows=0), 0.1)


def refused(rows, columns, *, error="RuntimeError: no", place="v.py:3"):
    kind = FindingKind.RAISED if rows and columns else FindingKind.EMPTY_REFUSED
    refusal = Refusal(rows=rows, columns=columns, error=error, place=place)
    return on(rows, columns, Violation(kind, "no", refusal=refusal))


def test_every_wider_row_refused_is_one_limit():
    found = [on(2, 8), on(2, 64), refused(2, 100), refused(1, 200, error="RuntimeError: 200 is too much")]
    (limit,) = size_limits(found, [])
    assert (limit.measure, limit.answered, limit.refused) == ("columns", 64, 100)
    assert limit.words == (
        "refuses beyond 64 columns (100 is the smallest refused): RuntimeError: no at v.py:3; declare max_columns=64"
    )
    assert all(limit.covers(v) for r in found for v in r.measurement.violations)


@pytest.mark.parametrize(
    "results",
    [
        [on(2, 8), refused(2, 64), on(2, 100)],
        [on(2, 8), on(2, 64), refused(2, 64)],
        [refused(2, 64), refused(2, 8)],
        [on(2, 8), on(2, 64, Violation(FindingKind.RAISED, "no"))],
        [on(0, 8), refused(2, 64)],
    ],
    ids=["a wider one is answered", "the same size is answered", "nothing is", "no refusal", "none with elements is"],
)
def test_a_refusal_that_is_not_monotone_is_no_limit(results):
    assert size_limits(results, []) == []


def test_each_reason_is_judged_by_itself():
    found = [on(2, 8), refused(2, 64), refused(2, 4, error="ValueError: four")]
    (limit,) = size_limits(found, [])
    assert limit.first.error == "RuntimeError: no"
    assert not limit.covers(found[2].measurement.violations[0])


def test_rows_and_elements_have_limits_too():
    (limit,) = size_limits([on(2, 64), refused(100, 8)], [])
    assert (limit.measure, limit.answered) == ("rows", 2)
    (limit,) = size_limits([on(2, 64), on(64, 2), refused(60, 60)], [])
    assert limit.measure == "elements"


def test_inputs_without_elements_are_a_limit_of_their_own():
    (limit,) = size_limits([on(2, 8), refused(3, 0), refused(0, 3)], [])
    assert (limit.measure, limit.kind) == (None, FindingKind.EMPTY_REFUSED)
