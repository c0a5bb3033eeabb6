"""Kernels are captured as they are launched, however they came to be compiled. A stand-in takes the GPU's place."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("capture")),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    child = str(Path(__file__).with_name("launching_child.py"))
    done = subprocess.run([sys.executable, child], env=inherited | own, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("call", ["first call", "second call", "compiled before"])
def test_a_launched_kernel_is_captured_once_with_its_ptx(captured, call):
    assert captured[call] == [["_one_block_kernel"], ["ex2_approx"], ["cuda:90"]]


def test_every_kernel_of_a_call_is_captured(captured):
    names, exponentials, _ = captured["two kernels"]
    assert names == ["_one_block_kernel", "_exp2_prescaled_kernel"]
    assert exponentials == ["ex2_approx", "prescaled_ex2_approx"]


def test_a_librarys_call_captures_nothing(captured):
    assert captured["library"] == [[], [], []]
