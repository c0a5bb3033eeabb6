"""A variant that never answers is given up; one that answered once never is for its deaths."""

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from softcheck.cases.exhaustive import domain
from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import unmeasured
from softcheck.run import check
from softcheck.run.exhaust import Exhausted
from softcheck.run.generate import Generated
from softcheck.run.patience import MOST_DEATHS, MOST_TIMEOUTS, Patience
from softcheck.run.protocol import Ready
from softcheck.run.record import Record, SearchRecord
from softcheck.run.session import CaseMeasurement
from softcheck.variants.declaration import Declaration

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


def results(count, violations):
    bits = np.zeros((1, 2), dtype=np.uint16)
    cases = [case_from_bits(bits, "float16", provenance="test", name=str(number)) for number in range(count)]
    return [CaseMeasurement("v", case, unmeasured(case.shape, violations), 0.1) for case in cases]


def reminded(record):
    patience = Patience()
    record.remind(patience)
    return patience


@pytest.mark.parametrize(("elements", "given_up"), [(2**23, False), (0, True)])
def test_a_resumed_run_remembers_what_pairs_answered(elements, given_up):
    record = Record(None, None)
    found = replace(unmeasured((2**23, 2), CRASH), elements=elements)
    record.exhausted["v", "float16"] = Exhausted("v", Declaration(), domain("float16", 2), found, 1.0)
    record.results.update({("v", r.case.id): r for r in results(MOST_DEATHS - 1, CRASH)})
    assert (reminded(record).over("v", "float16") is not None) == given_up


def test_a_resumed_run_remembers_timeouts_of_searches():
    record = Record(None, None)
    record.searches["v", "float16"] = SearchRecord(
        Generated("v", "float16", 9, None), tuple(results(MOST_TIMEOUTS, TIMEOUT))
    )
    assert reminded(record).over("v", "float32").kind is FindingKind.TIMEOUT


def test_what_was_given_up_is_not_timed():
    asked = []

    def time(names, dtype, _shape, *, seed, seconds):
        asked.append((dtype, names))
        return "no time"

    options = check.RunOptions(variants=("v", "w"), dtypes=("float16", "float32"), cases=(), whole_corpus=False)
    ready = Ready(backend="cuda", device="GPU", torch="2", triton="3", python="3.11", driver=None)
    run = check.Run(options=options, ready=ready, declarations={"v": Declaration(), "w": Declaration()})
    session = SimpleNamespace(
        patience=counted(*[CRASH] * MOST_DEATHS), time=time, jobs=1, places=1, may_begin=lambda _: True
    )
    check._time(session, run, check.Events(), Record(None, None))
    assert [(dtype, list(names)) for dtype, names in asked] == [("float16", ["w"]), ("float32", ["v", "w"])]
    assert run.untimed[0] == "v, float16: not timed: given up: each of the first 5 calls in float16 ended its process"
