"""Hostile variants cost one finding each; healthy ones beside them lose nothing."""

import re
from pathlib import Path

import numpy as np
import pytest

from softcheck.cases.case import PACKED, Layout
from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind
from softcheck.errors import NothingRunError, SoftcheckError
from softcheck.run import forking
from softcheck.run.patience import MOST_TIMEOUTS
from softcheck.run.pool import Lane, spread
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import Timed
from softcheck.run.session import Session, rows_to_run
from softcheck.speed.samples import Sampled, ShapeSamples

KERNELS = Path(__file__).parents[1] / "kernels"


def hostile(name):
    return f"{KERNELS / 'hostile.py'}:{name}"


def case_of(values, name="case", layout=PACKED):
    bits = np.asarray(values, dtype=np.float16).view(np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=name, layout=layout)


TWO = case_of([[0.0, 1.0], [2.0, -1.0]], "two")
THREE = case_of([[0.0, 1.0, 2.0], [5.0, -1.0, 0.5]], "three")
STRIDED = case_of([[0.0, 1.0, 2.0], [5.0, -1.0, 0.5]], "strided", Layout(row_stride=5, offset=1))


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=2, seconds_per_call=1.0)
    yield opened
    opened.close()


def kinds(session, variant, case):
    (result,) = session.run_case(case, [hostile(variant)])
    return {v.kind for v in result.measurement.violations}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("exits", FindingKind.CRASH),
        ("calls_sys_exit", FindingKind.RAISED),
        ("aborts", FindingKind.CRASH),
        ("hangs", FindingKind.TIMEOUT),
        ("raises", FindingKind.RAISED),
    ],
)
def test_hostile_variant_costs_one_finding_and_the_rest_goes_on(session, name, kind):
    order = [hostile("healthy"), hostile(name), hostile("shouts")]
    found = {}
    jobs = [session.job(case, order) for case in (TWO, THREE)]
    assert spread(session, [Lane(jobs, 2)], lambda r: found.setdefault((r.variant, r.case.id), r), print) == []
    assert len(found) == 6
    for (variant, case_id), result in found.items():
        expected = {kind} if variant == hostile(name) and case_id == THREE.id else set()
        assert {v.kind for v in result.measurement.violations} == expected, (variant, case_id)
    untouched = found[hostile("shouts"), THREE.id].measurement
    assert untouched == found[hostile("healthy"), THREE.id].measurement


def test_a_process_that_is_killed_is_said_to_have_lacked_memory(session):
    (result,) = session.run_case(THREE, [hostile("is_killed")])
    [violation] = result.measurement.violations
    assert violation.kind is FindingKind.CRASH
    assert "signal 9, as Linux ends a process where memory runs out" in violation.message


@pytest.mark.parametrize(
    ("variant", "case", "kind"),
    [
        ("writes_input", THREE, FindingKind.INPUT_MODIFIED),
        ("writes_gap", STRIDED, FindingKind.OUT_OF_BOUNDS_WRITE),
        ("leaves_tail", THREE, FindingKind.UNWRITTEN_OUTPUT),
        ("ignores_strides", STRIDED, FindingKind.WRONG_LAYOUT),
        ("float32_out", THREE, FindingKind.WRONG_DTYPE),
        ("transposed", THREE, FindingKind.WRONG_SHAPE),
        ("all_zero", THREE, FindingKind.ULP_EXCEEDS_BOUND),
        ("uniform", THREE, FindingKind.ULP_EXCEEDS_BOUND),
    ],
)
def test_planted_fault_is_named(session, variant, case, kind):
    assert kind in kinds(session, variant, case)


@pytest.mark.parametrize(
    ("variant", "case"),
    [("leaves_tail", TWO), ("ignores_strides", THREE), ("healthy", STRIDED), ("healthy", THREE)],
)
def test_where_the_fault_does_not_show_nothing_is_found(session, variant, case):
    assert kinds(session, variant, case) == set()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "returned NoneType, expected a torch.Tensor"),
        ("transposed", "returned shape [8, 2], expected [2, 8]"),
        ("float32_out", "returned torch.float32, expected torch.float16"),
        ("float32_out", "judge what is returned with --call 'f(x).to(x.dtype)'"),
        ("transposed", "as --call 'f(x)[0]' does"),
        ("on_meta", "returned a tensor on meta"),
        ("two_arguments", "two_arguments(x, weights) can't be called with one matrix"),
    ],
)
def test_what_is_no_softmax_function_is_refused_when_loaded(session, name, said):
    refusal = session.load(hostile(name))
    assert isinstance(refusal, str)
    assert said in refusal


def test_module_that_raises_on_import_is_refused_with_its_error(session):
    refusal = session.load(f"{KERNELS / 'broken_import.py'}:softmax")
    assert isinstance(refusal, str)
    assert "RuntimeError: no such driver" in refusal


def test_missing_gpu_is_said_before_anything_runs(monkeypatch):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    # Another server would import torch again.
    server = forking._server
    monkeypatch.setattr(forking, "_server", lambda _device: server("interpreter"))
    with pytest.raises(NothingRunError, match="interpreter"):
        Session("cuda")


def test_interpreter_cuts_large_cases_and_a_gpu_none():
    large = case_of(np.zeros((100, 4)), "large")
    assert rows_to_run(large, "interpreter") == 40
    assert rows_to_run(large, "cuda") is None
    assert rows_to_run(TWO, "interpreter") is None


def test_variant_that_shared_a_process_with_a_culprit_is_not_blamed(session):
    results = session.run_case(TWO, [hostile("ends_the_process_later"), hostile("slow")])
    assert {r.variant: {v.kind for v in r.measurement.violations} for r in results}[hostile("slow")] == set()


def test_variant_that_dies_when_first_called_is_a_finding_not_a_refusal(session):
    assert not isinstance(session.load(hostile("aborts_at_once")), str)
    assert kinds(session, "aborts_at_once", TWO) == {FindingKind.CRASH}


def test_sys_exit_is_a_finding_at_its_line_and_the_worker_lives_on():
    opened = Session("interpreter", jobs=1)
    try:
        (result,) = opened.run_case(THREE, [hostile("calls_sys_exit")])
        worker = opened.take()
    finally:
        opened.close()
    (violation,) = result.measurement.violations
    assert re.fullmatch(r"raised SystemExit\(0\) at \S+/hostile.py:\d+; expected an output", violation.message)
    assert violation.refusal is None, "an exit refuses no size"
    assert hostile("calls_sys_exit") in worker.served


def test_variant_that_keeps_running_out_of_time_is_given_up():
    opened = Session("interpreter", jobs=1, seconds_per_call=0.5)
    try:
        opened.load(hostile("hangs"), ("float16",))
        for number in range(MOST_TIMEOUTS):
            (result,) = opened.run_case(case_of(np.ones((1, 3)) * number, str(number)), [hostile("hangs")])
            assert {v.kind for v in result.measurement.violations} == {FindingKind.TIMEOUT}
        assert opened.run_case(THREE, [hostile("hangs")]) == []
        assert opened.patience.over(hostile("hangs"), "float16").kind is FindingKind.TIMEOUT
        assert opened.patience.over(hostile("healthy"), "float16") is None
    finally:
        opened.close()


def test_what_a_variant_started_ends_with_its_worker():
    import subprocess

    opened = Session("interpreter", jobs=1, seconds_per_call=0.5)
    try:
        opened.run_case(THREE, [hostile("leaves_a_child")])
    finally:
        opened.close()
    left = subprocess.run(["pgrep", "-f", "sleep 7777"], capture_output=True, check=False)
    assert left.stdout == b""


def test_closed_session_starts_no_more_workers():
    opened = Session("interpreter", jobs=1)
    opened.close()
    with pytest.raises(SoftcheckError, match="closed"):
        opened.run_case(TWO, ["torch"])


def test_variant_that_ends_the_worker_while_timed_is_left_out_and_the_others_are_timed(monkeypatch):
    asked = []

    def timed(worker, request, limits):
        asked.append(request.variants)
        worker.running = request.variants[0]
        if "bad" in request.variants:
            raise WorkerDiedError("the worker process ended with exit status 1", timed_out=False)
        one = Sampled(name="good", seconds=(1.0,))
        yield Timed(
            ShapeSamples(
                dtype="float16", rows=4, columns=4, variants=(one,), copy=one, torch=one, cache="cold", stopped="budget"
            )
        )

    session = Session("interpreter", jobs=1)
    try:
        monkeypatch.setattr(session, "ask", timed)
        samples = session.time(["bad", "good"], "float16", (4, 4), seed=0)
        assert session.time(["bad"], "float16", (4, 4), seed=0) == "bad: the worker process ended with exit status 1"
    finally:
        session.close()
    assert asked == [("bad", "good"), ("good",), ("bad",)]
    assert [(s.name, s.seconds, s.reason) for s in samples.variants] == [
        ("bad", (), "the worker process ended with exit status 1"),
        ("good", (1.0,), None),
    ]


def test_without_a_gpu_nothing_is_timed():
    session = Session("interpreter", jobs=1)
    try:
        assert "needs a CUDA device" in session.time(["torch"], "float16", (4, 4), seed=0)
    finally:
        session.close()


@pytest.mark.parametrize(("name", "rows"), [("torch", 6000), ("one_block", 40)])
def test_rows_are_left_out_where_a_kernel_is_interpreted_and_nowhere_else(name, rows):
    values = np.random.default_rng(3).normal(0, 2, (6000, 5))
    session = Session("interpreter", jobs=1)
    try:
        assert not isinstance(session.load(name, ("float16",)), str)
        (result,) = session.run_case(case_of(values, "many"), [name])
    finally:
        session.close()
    assert result.measurement.rows == rows
    assert result.measurement.violations == ()
