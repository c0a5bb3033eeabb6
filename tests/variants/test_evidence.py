"""A variant's arithmetic shown by its own kernels: compiled ahead without a GPU, or launched on a stand-in for one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants import evidence
from softcheck.variants.registry import load

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "toolchain"
CPU = torch.device("cpu")

FAILING = """
def raises(x):
    raise ValueError("not for you")

def library(x):
    return x.softmax(-1)
"""


def shown(spec, dtype="float32", shape=(3, 781)):
    return evidence.shown(load(spec), dtype, shape, on_gpu=False, device=CPU)


def test_a_running_sum_that_is_rescaled_is_shown_where_nothing_is_declared():
    for kind, rescales in (("online_lanes", True), ("three_passes", False)):
        spec = f"{KERNELS / 'rescaling_kernels.py'}:{kind}"
        assert load(spec).declaration.arithmetic is None
        assert shown(spec) == Arithmetic(rescales=rescales)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("one_block", Arithmetic()),
        ("online", Arithmetic(rescales=True)),
        ("exp2_prescaled", Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True)),
    ],
)
def test_the_whole_arithmetic_is_shown(spec, expected):
    assert shown(spec) == expected


def test_kernels_are_those_of_the_shape():
    assert shown("online", "float64").intermediate == "float64"
    assert shown(f"{ROOT}/tests/planted/controls/split_columns.py:softmax", shape=(2, 5000)) == Arithmetic(
        rescales=True
    )


def test_nothing_is_shown_where_nothing_can_be_read(tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    wrong = KERNELS / "shifting_kernels.py"
    for spec in ("torch", f"{file}:raises", f"{file}:library", f"{wrong}:biased"):
        assert shown(spec) is None


def test_each_question_is_asked_once(monkeypatch):
    asked = []
    original = evidence.compile_ahead
    monkeypatch.setattr(evidence, "compile_ahead", lambda *wanted: asked.append(wanted) or original(*wanted))
    variant = load("one_block")
    for shape in ((3, 100), (3, 100), (3, 200), (3, 100)):
        evidence.shown(variant, "float32", shape, on_gpu=False, device=CPU)
    evidence.shown(variant, "float16", (3, 100), on_gpu=False, device=CPU)
    assert [wanted[2:] for wanted in asked] == [("float32", (3, 100)), ("float32", (3, 200)), ("float16", (3, 100))]


def test_launched_kernels_show_the_same(tmp_path):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    child = str(Path(__file__).with_name("evidence_child.py"))
    done = subprocess.run([sys.executable, child], env=inherited | own, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == {
        "online": {"rescales": True},
        "one_block": {"rescales": False},
        "torch": None,
        "raises": None,
    }
