"""A small run of benchmarks/fuzz.py: strangers' files and arguments end in a message, never in a traceback."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from softcheck.report.figures import duration

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzzer():
    specification = importlib.util.spec_from_file_location("fuzz_script", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    # dataclasses look their module up.
    sys.modules["fuzz_script"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["fuzz_script"]


FEW = {"corpus": 2000, "result": 300, "comparison": 500, "journal": 800, "array": 1000, "config": 500, "variant": 500}


@pytest.mark.parametrize(("target", "inputs"), FEW.items())
def test_hostile_input_is_refused_or_read(fuzzer, tmp_path, target, inputs):
    score = fuzzer.fuzz(target, inputs, 1, tmp_path)
    assert score.faults == {}
    assert score.inputs // 3 < score.refused < score.inputs, "mutations must neither all be refused nor all be harmless"


def test_fuzzer_reports_what_a_reader_raises(fuzzer, tmp_path, monkeypatch):
    def fragile(_folder):
        return fuzzer.Target([b'{"a": 1}'], lambda content: {}[content], fuzzer.mutated_json)

    monkeypatch.setitem(fuzzer.TARGETS, "fragile", (fragile, 1.0))
    score = fuzzer.fuzz("fragile", 5, 0, tmp_path)
    (place,) = score.faults
    assert place.startswith("KeyError")
    assert score.inputs == 5


def test_same_seed_makes_the_same_inputs(fuzzer):
    made = [
        [fuzzer.mutated_json(rng, b'{"a": [1, 2]}') for _ in range(9)] for rng in (random.Random(1), random.Random(1))
    ]
    assert made[0] == made[1]


def test_every_target_is_fed(fuzzer):
    assert list(fuzzer.TARGETS) == list(FEW)


@pytest.mark.parametrize(("seconds", "text"), [(float("nan"), "nan s"), (float("inf"), "inf s")])
def test_duration_of_a_hostile_report_is_text(seconds, text):
    assert duration(seconds) == text
