"""Limits of Triton's interpreter are reported in a note; a fault of a kernel there stays a finding."""

import json
from pathlib import Path

import pytest
import torch
from command import softcheck

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "kernels" / "uninterpretable.py"

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there to be asked")


def report(function, *arguments):
    command = ["report", "--variant", f"{KERNELS}:{function}", "--device", "interpreter", "--dtype", "float32"]
    done = softcheck(*command, "--format", "json", *arguments)
    found = json.loads(done.stdout)
    [row] = found["variants"]
    return done, row, found["notes"]


CASES = ("--case", "ties/halves-9/float32", "--case", "special/inf-in-6?/float32")
PROBES = ("--probe", "determinism", "--probe", "sizes", "--quick")


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        ("inline_assembly", "inline assembly"),
        ("inline_assembly_wrapped", "inline assembly"),
        ("asks_for_the_code", "asm of a compiled kernel"),
        ("asserts_cuda", '(assert x.is_cuda, "a tensor on the device"); to judge the logic here'),
        ("refuses_the_cpu", '(raise ValueError("wrong device")); to judge the logic here'),
        pytest.param("asks_for_memory", "can't run without a GPU", marks=needs_no_gpu),
        pytest.param("times_itself", "Tried to instantiate dummy base class Event at", marks=needs_no_gpu),
        pytest.param("names_the_device", "take the device of the input: device=x.device", marks=needs_no_gpu),
    ],
)
def test_what_the_interpreter_cant_run_is_a_note_and_nothing_was_run(function, operation):
    done, row, notes = report(function, *CASES, "--probe", "determinism", "--quick")
    assert done.returncode == 3, done.stderr
    assert row["verdict"] == "unsupported"
    assert row["findings"] == []
    assert row["cases_run"] == 0
    assert operation in row["reason"]
    assert "judge it on" in row["reason"]
    said = [note for note in notes if operation in note]
    assert any("cases not run" in note for note in said)
    assert any("probe determinism" in note for note in said)


@needs_no_gpu
def test_a_stand_in_answers_for_the_device_and_the_compiled_kernel():
    done, row, _ = report("asks_the_device", *CASES, *PROBES)
    assert done.returncode == 0, done.stderr
    assert row["verdict"] == "pass"
    assert row["cases_run"] > 0


@needs_no_gpu
def test_what_torch_compiles_asks_the_stand_in_for_what_it_needs():
    done, row, _ = report("is_compiled", *CASES, "--probe", "determinism", "--quick")
    assert done.returncode == 0, done.stderr
    assert (row["verdict"], row["findings"]) == ("pass", [])


def test_a_kernel_that_is_only_read_is_not_called_right():
    done, row, _ = report("inline_assembly", *CASES, "--probe", "arithmetic", "--probe", "empties")
    assert (done.returncode, row["verdict"]) == (3, "unsupported")


def test_what_can_be_run_is_judged_beside_the_note():
    done, row, notes = report("assembly_for_even_widths", *CASES, *PROBES)
    assert done.returncode == 0, done.stderr
    assert row["verdict"] == "pass"
    assert row["cases_run"] > 0
    assert row["probes_run"]["sizes"] > 0
    assert any("cases not run: Triton's interpreter can't run this: inline assembly" in note for note in notes)
    assert any("probe sizes" in note and "inline assembly" in note for note in notes)
    assert not any("50 ms" in note for note in notes)


def test_what_can_be_run_and_is_wrong_stays_a_finding():
    done, row, _ = report("assembly_for_even_widths_else_wrong", *CASES, *PROBES)
    assert done.returncode == 1
    assert row["verdict"] == "fail"
    found = {finding["case"].partition("/")[0] for finding in row["findings"]}
    assert {"special", "probe"} <= found
    assert any(finding["case"].startswith("probe/sizes") for finding in row["findings"])


@pytest.mark.parametrize(
    "function",
    ["raises_not_implemented", "indexes_beyond", "adds_other_shapes", "calls_what_does_not_exist"],
)
def test_a_kernels_own_errors_are_findings(function):
    done, row, _ = report(function, *CASES)
    assert done.returncode == 1
    assert {finding["kind"] for finding in row["findings"]} == {"raised"}
