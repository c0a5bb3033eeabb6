"""A zoo of hostile variants beside healthy ones: each costs one kind of finding, and the healthy ones lose nothing."""

from pathlib import Path

import numpy as np
import pytest
from test_session import case_of

from softcheck.contract import FindingKind
from softcheck.run.pool import Lane, spread
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

ZOO = Path(__file__).parents[1] / "kernels" / "zoo.py"
HEALTHY = ["torch", "one_block", "eager"]
HOSTILE = {
    "segfaults": FindingKind.CRASH,
    "exits": FindingKind.CRASH,
    "aborts": FindingKind.CRASH,
    "kills_itself": FindingKind.CRASH,
    "hangs": FindingKind.TIMEOUT,
    "exhausts_host_memory": FindingKind.OUT_OF_MEMORY,
    "prints_megabytes": None,
    "changes_the_default_dtype": FindingKind.STATE_CHANGED,
    "seeds_and_demands_determinism": FindingKind.STATE_CHANGED,
    "patches_torch": FindingKind.STATE_CHANGED,
    "enters_a_dispatch_mode": FindingKind.STATE_CHANGED,
    "changes_threads_gradients_and_environment": FindingKind.STATE_CHANGED,
    "changes_how_numbers_are_rounded": FindingKind.STATE_CHANGED,
    "leaves_an_alarm_that_raises": FindingKind.STATE_CHANGED,
    "makes_warnings_errors": FindingKind.STATE_CHANGED,
    "closes_standard_output": FindingKind.STATE_CHANGED,
    "patches_numpy": FindingKind.STATE_CHANGED,
    "leaves_a_thread_that_writes": FindingKind.STATE_CHANGED,
}
CASES = [
    case_of(np.random.default_rng(columns).normal(0, 3, (5, columns)), f"columns-{columns}")
    for columns in (2, 3, 4, 65)
]
HARMED = CASES[1].id


def run(hostile):
    """Measurements by variant and case, each hostile variant between healthy ones, all in the same two workers."""
    order = [*HEALTHY[:1], *(f"{ZOO}:{name}" for name in hostile), *HEALTHY[1:]]
    found = {}
    session = Session("interpreter", jobs=2, seconds_per_call=4.0)
    try:
        errors = spread(
            session,
            [Lane([session.job(case, order) for case in CASES], 2)],
            lambda r: found.setdefault((r.variant.rpartition(":")[2], r.case.id), r.measurement),
            lambda *_: None,
        )
    finally:
        session.close()
    assert errors == []
    assert len(found) == len(order) * len(CASES), "no result is lost"
    return found


def test_zoo_costs_one_kind_of_finding_each_and_healthy_results_are_those_of_an_undisturbed_run():
    undisturbed = run([])
    disturbed = run(HOSTILE)
    for (name, case), measurement in undisturbed.items():
        assert disturbed[name, case] == measurement, f"{name} on {case} beside the zoo"
    kinds = {key: {v.kind for v in m.violations} for key, m in disturbed.items() if key[0] in HOSTILE}
    for (name, case), found in kinds.items():
        expected = {HOSTILE[name]} if case == HARMED and HOSTILE[name] else set()
        assert found == expected, f"{name} on {case}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("changes_the_default_dtype", "the default dtype (from torch.float32 to torch.float64)"),
        ("seeds_and_demands_determinism", "the random seed"),
        ("patches_torch", "torch.softmax, "),
        ("enters_a_dispatch_mode", "global hooks of modules"),
        ("changes_how_numbers_are_rounded", "rounding or the flushing of subnormals (from "),
        ("leaves_an_alarm_that_raises", "timers (the real one runs), the handling of signals (SIGALRM)"),
        ("makes_warnings_errors", "warnings (Warning is raised)"),
        ("closes_standard_output", "standard streams (sys.stdout was closed)"),
        ("patches_numpy", "numpy.exp, numpy.sum"),
        ("leaves_a_thread_that_writes", "scribbler"),
    ],
)
def test_message_names_what_was_changed(session, name, said):
    (result,) = session.run_case(CASES[1], [f"{ZOO}:{name}"])
    (violation,) = result.measurement.violations
    assert said in violation.message
    assert result.measurement.elements > 0, "the output is judged all the same"


def test_what_a_module_changes_while_it_is_imported_is_put_back_and_no_finding(session, tmp_path):
    module = tmp_path / "script.py"
    module.write_text(
        "import torch\ntorch.manual_seed(0)\ntorch.set_default_dtype(torch.float64)\n\n"
        "def f(x):\n    assert torch.get_default_dtype() is torch.float32\n    return torch.softmax(x, -1)\n"
    )
    (result,) = session.run_case(CASES[1], [f"{module}:f"])
    assert result.measurement.violations == ()


def test_what_only_the_first_call_changes_is_found_however_many_workers_there_are(tmp_path):
    module = tmp_path / "lazy.py"
    module.write_text(
        "import torch\n\nready = []\n\ndef f(x):\n    if not ready:\n        ready.append(1)\n"
        "        torch.set_float32_matmul_precision('medium')\n    return torch.softmax(x, -1)\n"
    )
    opened = Session("interpreter", jobs=1, seconds_per_call=60.0)
    try:
        assert not isinstance(opened.load(f"{module}:f"), str)
        kinds = [
            {v.kind for v in opened.run_case(case, [f"{module}:f"])[0].measurement.violations} for case in CASES[1:3]
        ]
    finally:
        opened.close()
    assert kinds == [{FindingKind.STATE_CHANGED}, set()]


def test_compiled_variant_is_not_accused_of_what_torch_does(session):
    (result,) = session.run_case(CASES[3], ["eager_compiled"])
    assert FindingKind.STATE_CHANGED not in {v.kind for v in result.measurement.violations}


def test_state_that_a_probe_sees_changed_is_its_finding(session, tmp_path):
    module = tmp_path / "seeding.py"
    module.write_text("import torch\n\ndef f(x):\n    torch.manual_seed(99)\n    return torch.softmax(x, -1)\n")
    result = run_probe(session, ProbeTask(variant=f"{module}:f", dtype="float16", probe="empties"))
    assert {s.violation.kind for s in result.conclusion.findings} == {FindingKind.STATE_CHANGED}


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=1, seconds_per_call=60.0)
    yield opened
    opened.close()
