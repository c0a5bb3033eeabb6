"""Agreement of the two judges: the figures that must agree, and how closely."""

import math

import msgspec
import numpy as np
import pytest
from agreement import differing, disagreements
from judge_helpers import matrix, rounded

from oracles.formats import FLOAT32
from softcheck.judge.judge import judge


@pytest.fixture(scope="module")
def measured():
    bits = matrix(np.random.default_rng(1).standard_normal((3, 33)), FLOAT32)
    return judge(bits, rounded(bits, FLOAT32), FLOAT32)


def changed(measurement, **figures):
    return msgspec.structs.replace(measurement, **figures)


def test_the_same_figures_agree(measured):
    assert disagreements(measured, measured) == []
    assert differing(measured, measured) == ""


@pytest.mark.parametrize(
    ("ours", "agree"),
    [(1 + 1.9e-6, True), (1 + 2.1e-6, False), (math.nan, False), (math.inf, False)],
)
def test_sums_of_errors_agree_to_two_millionths(measured, ours, agree):
    theirs = changed(measured, elements=1, histogram={326: 1}, ulp_sum=1.0)
    assert (disagreements(changed(theirs, ulp_sum=ours), theirs) == []) == agree


@pytest.mark.parametrize(("each", "agree"), [(2.0**-19.1, True), (2.0**-18, False)])
def test_errors_that_no_scan_can_see_are_none(measured, each, agree):
    exact = changed(measured, elements=10**6, histogram={0: 10**6}, ulp_sum=0.0)
    assert (disagreements(changed(exact, ulp_sum=each * 10**6), exact) == []) == agree


@pytest.mark.parametrize(
    ("ours", "agree"),
    [
        ({572: 46, 573: 36}, True),
        ({572: 38, 573: 44}, True),
        ({572: 75, 573: 7}, False),
        ({571: 4, 572: 38, 573: 40}, True),
        ({572: 41, 573: 39, 574: 2}, False),
    ],
)
def test_equal_logits_may_cross_one_edge_of_the_histogram_together(measured, ours, agree):
    """As on an H200 in float16: four of 4098 elements, equal two by two."""
    theirs = changed(measured, elements=2049, histogram={0: 1967, 572: 42, 573: 40})
    assert (disagreements(changed(theirs, histogram={0: 1967, **ours}), theirs) == []) == agree


def test_both_values_are_told(measured):
    other = changed(measured, flushed=3, histogram={**measured.histogram, 5: 7})
    told = differing(other, measured)
    assert "flushed 3 on the device, 0 by numpy" in told
    assert "histogram {5: 7} on the device, {5: 0} by numpy" in told
