"""What only a GPU can show: timing, and a device that a kernel has ruined."""

from pathlib import Path

import numpy as np
import pytest

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind
from softcheck.run.session import Session

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "kernels" / "on_gpu.py"


@pytest.fixture(scope="module")
def session():
    opened = Session("cuda", jobs=1, seconds_per_call=60.0)
    yield opened
    opened.close()


def case_of(columns):
    bits = np.linspace(-2, 2, 3 * columns).reshape(3, columns).astype(np.float16).view(np.uint16)
    return case_from_bits(bits, "float16", provenance="test")


def test_illegal_memory_access_costs_one_finding_and_the_rest_goes_on(session):
    order = [f"{KERNELS}:reads_far_away", "one_block", "torch"]
    results = {r.variant: {v.kind for v in r.measurement.violations} for r in session.run_case(case_of(64), order)}
    assert results == {order[0]: {FindingKind.CRASH}, "one_block": set(), "torch": set()}


def test_device_out_of_memory_is_a_finding_and_the_rest_goes_on(session):
    order = [f"{KERNELS}:asks_for_everything", "one_block"]
    results = {r.variant: {v.kind for v in r.measurement.violations} for r in session.run_case(case_of(64), order)}
    assert results == {order[0]: {FindingKind.OUT_OF_MEMORY}, "one_block": set()}


def test_kernel_that_does_not_compile_is_a_compile_error(session):
    (result,) = session.run_case(case_of(64), [f"{KERNELS}:does_not_compile"])
    assert {v.kind for v in result.measurement.violations} == {FindingKind.COMPILE_ERROR}


def test_right_kernels_are_timed_below_what_memory_allows(session):
    speeds = session.time(["one_block", "torch"], "float16", (8192, 8192), seed=0)
    assert not isinstance(speeds, str), speeds
    assert speeds.copy_seconds > 0
    for name in ("one_block", "torch"):
        timed = speeds.seconds[name].seconds
        assert timed is not None
        assert timed > 0.8 * speeds.copy_seconds, "no softmax beats a copy; the input must have come from the cache"


def test_kernel_that_skips_work_is_not_timed(session):
    speeds = session.time(["notebook_vectorized", "one_block"], "float16", (8192, 8192), seed=0)
    assert not isinstance(speeds, str), speeds
    assert speeds.seconds["notebook_vectorized"].seconds is None
    assert "wrong" in speeds.seconds["notebook_vectorized"].reason
    assert speeds.seconds["one_block"].seconds is not None


def test_same_variant_twice_takes_the_same_time(session):
    times = []
    for _ in range(2):
        speeds = session.time(["one_block"], "float16", (8192, 8192), seed=1)
        times.append(speeds.seconds["one_block"].seconds / speeds.copy_seconds)
    assert times[0] == pytest.approx(times[1], rel=0.1)
