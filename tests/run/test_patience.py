"""A variant that never answers is given up; one that answered once never is for its deaths."""

import pytest

from softcheck.contract import FindingKind, Violation
from softcheck.run.patience import MOST_DEATHS, MOST_TIMEOUTS, Patience

CRASH = (Violation(FindingKind.CRASH, "gone"),)
TIMEOUT = (Violation(FindingKind.TIMEOUT, "slow"),)
WRONG = (Violation(FindingKind.RAISED, "no"),)


def counted(*calls):
    patience = Patience()
    for call in calls:
        patience.count("v", "float16", call)
    return patience


def test_given_up_after_so_many_deaths_and_no_answer_in_that_dtype_alone():
    assert counted(*[CRASH] * (MOST_DEATHS - 1)).over("v", "float16") is None
    patience = counted(*[CRASH] * MOST_DEATHS)
    assert patience.over("v", "float16").kind is FindingKind.CRASH
    assert patience.over("v", "float32") is None
    assert patience.over("w", "float16") is None


@pytest.mark.parametrize("answer", [(), WRONG])
@pytest.mark.parametrize("before", [0, MOST_DEATHS - 1])
def test_one_answer_is_enough_to_go_on(answer, before):
    calls = [*[CRASH] * before, answer, *[CRASH] * 100]
    assert counted(*calls).over("v", "float16") is None


def test_given_up_for_good():
    """Calls that were left out would otherwise be missing without a word."""
    assert counted(*[CRASH] * MOST_DEATHS, ()).over("v", "float16") is not None


def test_timeouts_count_over_all_dtypes_and_beside_answers():
    patience = counted(*[(), TIMEOUT] * MOST_TIMEOUTS)
    assert patience.over("v", "float64").kind is FindingKind.TIMEOUT
    assert counted(*[TIMEOUT] * (MOST_TIMEOUTS - 1)).over("v", "float16") is None
