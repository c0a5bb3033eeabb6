"""Behaviour that only a GPU can show: streams, tuning, fusion, races; and every width of a right kernel, judged."""

from pathlib import Path

import pytest
from probing_child import ask

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "kernels" / "options.py"
PROBES = ("determinism", "fusion", "launch_options")


@pytest.fixture(scope="module")
def found():
    names = (
        *("own_stream", "default_stream", "atomic_sums", "tuned_in_place"),
        *("wrong_where_fused", "one_configuration_too_small", "pruned", "takes_warps"),
    )
    lines = ask("cuda", "float32", PROBES, *(f"{KERNELS}:{name}" for name in names), "one_block", "torch")
    return {(spec.rpartition(":")[2], probe): conclusion for spec, probe, _, conclusion in lines}


def shown(conclusion):
    return {(s.label, str(s.violation.kind)) for s in conclusion.findings}


@pytest.mark.parametrize("name", ["own_stream", "default_stream"])
def test_work_on_another_stream_than_the_callers(found, name):
    # Beside other work on the device even calls on the caller's own stream may differ.
    assert {kind for _, kind in shown(found[name, "determinism"])} == {"nondeterministic"}


def test_sums_in_the_order_of_atomics(found):
    assert {kind for _, kind in shown(found["atomic_sums", "determinism"])} == {"nondeterministic"}


def test_trial_runs_that_change_what_the_kernel_works_on(found):
    assert ("repeats", "nondeterministic") in shown(found["tuned_in_place", "determinism"])


def test_wrong_only_where_fused(found):
    conclusion = found["wrong_where_fused", "fusion"]
    assert {label for label, _ in shown(conclusion)} == {"large"}
    assert all("compiled with fused multiply and add" in s.violation.message for s in conclusion.findings)


def test_one_configuration_of_three(found):
    conclusion = found["one_configuration_too_small", "launch_options"]
    assert any("configuration=BLOCK: 64" in s.label for s in conclusion.findings)


@pytest.mark.parametrize("name", ["pruned", "takes_warps", "one_block", "torch"])
@pytest.mark.parametrize("probe", PROBES)
def test_right_kernels_are_left_alone(found, name, probe):
    assert found[name, probe].findings == ()


def test_every_width_of_a_right_kernel():
    [(_, _, seconds, conclusion)] = ask("cuda", "float16", ["sizes"], "torch")
    assert conclusion.findings == ()
    assert conclusion.skipped == ()
    assert seconds < 60
