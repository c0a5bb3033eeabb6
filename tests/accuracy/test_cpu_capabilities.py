"""Verdicts and exit codes of what runs on a CPU do not depend on the vector units that torch makes use of."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

LIBRARY = Path(__file__).parents[1] / "kernels" / "library.py"
RIGHT = ("functional", "module", "through_the_logarithm")
ABSORBED = "cancellation/absorbed-*"
SUMS = [word for cases in (ABSORBED, "uniform/*", "widths/*", "layout/*") for word in ("--case", cases)]
"""Cases whose figures hang on the order in which a row is added up."""


def capabilities():
    found = ["default"]
    if torch.cpu._is_avx2_supported():
        found.append("avx2")
    if torch.cpu._is_avx512_supported():
        found.append("avx512")
    return found


def report(capability, *arguments):
    """Exit code and JSON of a report in which torch acts like a CPU with these vector units."""
    command = [sys.executable, "-m", "softcheck.cli.main", "report", "--device", "interpreter", "--format", "json"]
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def verdicts(found):
    return {
        (v["name"], v["dtype"]): (v["verdict"], sorted((f["kind"], f["case"], f.get("known")) for f in v["findings"]))
        for v in found["variants"]
    }


@pytest.fixture(scope="module")
def builtin():
    names = [word for name in ("torch", "eager", "eager_compiled") for word in ("--variant", name)]
    return {capability: report(capability, *names, *SUMS, "--dtype", "float32") for capability in capabilities()}


@pytest.mark.parametrize("capability", capabilities())
def test_builtin_variants_without_a_kernel_keep_their_verdicts(builtin, capability):
    code, found = builtin[capability]
    assert code == 0
    assert verdicts(found) == verdicts(builtin["default"][1])


@pytest.mark.parametrize("capability", capabilities())
def test_what_users_write_without_a_kernel_passes(capability):
    names = [word for name in RIGHT for word in ("--variant", f"{LIBRARY}:{name}")]
    code, found = report(capability, *names, "--case", ABSORBED, "--case", "uniform/*", "--case", "layout/*")
    assert code == 0
    assert {v["verdict"] for v in found["variants"] if v["dtype"] != "float64"} == {"pass"}


@pytest.mark.parametrize("capability", capabilities())
def test_rows_that_are_columns_in_memory_are_summed_in_sequence_and_pass_in_float32(capability):
    name = f"{LIBRARY}:over_the_first_dimension"
    code, found = report(capability, "--variant", name, "--dtype", "float32", "--case", ABSORBED, "--case", "layout/*")
    assert code == 0
    assert found["variants"][0]["verdict"] == "pass"


def test_a_sum_in_sequence_is_said_in_a_note():
    name = f"{LIBRARY}:over_the_first_dimension"
    code, found = report("default", "--variant", name, "--dtype", "float32", "--case", ABSORBED)
    assert code == 0
    assert any("beyond the standard contract" in note and ABSORBED[:-1] in note for note in found["notes"])
    assert found["variants"][0]["max_standard_share"] > 2


@pytest.mark.parametrize("capability", capabilities())
def test_a_wrong_answer_without_a_kernel_fails(capability):
    name = f"{LIBRARY}:drops_the_last_column"
    code, found = report(capability, "--variant", name, "--dtype", "float32", "--case", "uniform/*")
    assert code == 1
    assert found["variants"][0]["verdict"] == "fail"
