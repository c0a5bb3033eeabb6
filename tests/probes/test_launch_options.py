"""Configurations of autotuned kernels and warps, under the interpreter."""

from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from probe_helpers import conclusion, kinds
from probing_child import ask

from softcheck.probes import tuning

KERNELS = Path(__file__).parents[1] / "kernels" / "options.py"


@pytest.fixture(scope="module")
def found():
    names = ("one_configuration_too_small", "pruned", "wrong_with_16_warps", "takes_warps")
    lines = ask("interpreter", "float16", ["launch_options", "permutations"], *(f"{KERNELS}:{name}" for name in names))
    return {(spec.rpartition(":")[2], probe): conclusion for spec, probe, _, conclusion in lines}


def test_a_configuration_that_never_wins_is_tried_on_its_own(found):
    conclusion = found["one_configuration_too_small", "launch_options"]
    assert conclusion.findings
    # Rows of more than 2048 columns are wrong in every configuration.
    assert any("configuration=BLOCK: 64; num_warps: 2" in s.label for s in conclusion.findings)
    # It runs in its first configuration elsewhere, which is right.
    assert found["one_configuration_too_small", "permutations"].findings == ()


def test_configurations_that_pruning_leaves_out_are_not_forced(found):
    assert found["pruned", "launch_options"].findings == ()
    assert found["pruned", "permutations"].findings == ()


def test_warps(found):
    conclusion = found["wrong_with_16_warps", "launch_options"]
    assert {s.label for s in conclusion.findings} == {"num_warps=16"}
    assert conclusion.findings[0].violation.message.startswith("with num_warps 16 ")
    assert found["takes_warps", "launch_options"].findings == ()
    assert "num_warps" in found["takes_warps", "launch_options"].varied


def test_a_number_of_warps_that_is_refused_is_no_finding_and_a_crash_is():
    def up_to_8(x, num_warps=4):
        if num_warps > 8:
            raise ValueError(num_warps)
        return torch.softmax(x, dim=-1)

    assert kinds(conclusion("launch_options", up_to_8)) == set()

    def wrong_shape_with_16(x, num_warps=4):
        return torch.softmax(x, dim=-1)[: 1 if num_warps == 16 else None]

    assert kinds(conclusion("launch_options", wrong_shape_with_16)) == {"wrong_shape"}


@pytest.mark.parametrize(("error", "expected"), [("OutOfResources", set()), ("ValueError", {"raised"})])
def test_a_configuration_that_tuning_would_leave_out_is_no_finding(monkeypatch, error, expected):
    raised = type(error, (Exception,), {})

    @contextmanager
    def watching(choose):
        chosen.append(choose(None, ["small", "large"]))
        try:
            yield
        finally:
            chosen.append(None)

    chosen = []

    def tuned(x):
        if chosen and chosen[-1] == "large":
            raise raised("too much shared memory")
        return torch.softmax(x, dim=-1)

    monkeypatch.setattr(tuning, "watching", watching)
    assert kinds(conclusion("launch_options", tuned)) == expected
    assert {"small", "large"} <= set(chosen)


def test_nothing_to_choose_is_said():
    def plain(x):
        return torch.softmax(x, dim=-1)

    found = conclusion("launch_options", plain)
    assert found.trials == 0
    assert found.skipped == ("nothing to try: has no other value of num_warps or splits or configuration",)
    assert kinds(found) == set()


def test_fusion_needs_a_gpu():
    def plain(x):
        return torch.softmax(x, dim=-1)

    found = conclusion("fusion", plain)
    assert found.trials == 0
    assert found.skipped == ("nothing to try: is judged on a GPU alone, since the interpreter never fuses",)
