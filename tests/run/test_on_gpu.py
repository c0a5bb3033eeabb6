"""Failure that only a GPU can show: a device that a kernel has ruined."""

from pathlib import Path

import numpy as np
import pytest
import torch

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
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


@pytest.mark.parametrize("ruin", ["reads_far_away", "asserts_on_the_device"])
def test_ruined_device_costs_one_finding_and_the_rest_goes_on(session, ruin):
    order = [f"{KERNELS}:{ruin}", "one_block", "torch"]
    results = {r.variant: {v.kind for v in r.measurement.violations} for r in session.run_case(case_of(64), order)}
    assert results == {order[0]: {FindingKind.CRASH}, "one_block": set(), "torch": set()}


def test_device_out_of_memory_is_a_finding_and_the_rest_goes_on(session):
    order = [f"{KERNELS}:asks_for_everything", "one_block"]
    results = {r.variant: {v.kind for v in r.measurement.violations} for r in session.run_case(case_of(64), order)}
    assert results == {order[0]: {FindingKind.OUT_OF_MEMORY}, "one_block": set()}


def test_memory_that_others_hold_is_no_finding(session):
    order = [f"{KERNELS}:asks_for_a_third", "one_block"]
    for kinds in (result.measurement.violations for result in session.run_case(case_of(64), order)):
        assert kinds == ()
    free, total = torch.cuda.mem_get_info()
    held = torch.empty(free - total // 5, dtype=torch.uint8, device="cuda")
    try:
        lacking, other = session.run_case(case_of(64), order)
    finally:
        del held
        torch.cuda.empty_cache()
    assert lacking.measurement.skipped.startswith("too little memory: CUDA out of memory. Tried to allocate")
    assert lacking.measurement.violations == other.measurement.violations == ()
    assert other.measurement.skipped is None


def test_kernel_that_does_not_compile_is_a_compile_error(session):
    (result,) = session.run_case(case_of(64), [f"{KERNELS}:does_not_compile"])
    assert {v.kind for v in result.measurement.violations} == {FindingKind.COMPILE_ERROR}


def test_width_at_which_the_device_is_ruined_is_named_though_calls_do_not_wait(session):
    task = ProbeTask(variant=f"{KERNELS}:reads_far_away_at_33_columns", dtype="float16", probe="sizes", effort="quick")
    [shown] = run_probe(session, task).conclusion.findings
    assert shown.violation.kind is FindingKind.CRASH
    assert shown.violation.message.startswith("N = 33 (1 of ")
