"""The command that runs all proofs on a GPU, without one: its commands are valid, and each ending is told apart."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import click
import pytest

from softcheck.cli.main import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prove():
    spec = importlib.util.spec_from_file_location("prove", ROOT / "benchmarks" / "prove.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["prove"] = module
    spec.loader.exec_module(module)
    return module


def test_every_step_is_a_command_that_exists(prove):
    assert len({s.name for s in prove.STEPS}) == len(prove.STEPS)
    for step in prove.STEPS:
        program, *arguments = shlex.split(step.command)
        if program == "softcheck":
            with patch.object(click.Command, "invoke", return_value=None):
                cli.main(args=arguments, prog_name="softcheck", standalone_mode=False)
        elif program == "python":
            script = (ROOT / arguments[0]).read_text()
            assert [a for a in arguments if a.startswith("--") and f'"{a}"' not in script] == []
        else:
            assert program == "pytest"
            named = [a for a in arguments if a.startswith("tests")]
            assert named
            assert all((ROOT / a).exists() for a in named)


def test_endings_are_told_apart_and_saved(prove, tmp_path, monkeypatch):
    monkeypatch.setattr(prove, "words", lambda command: [sys.executable, "-c", command])
    beside = "import pathlib, time\npathlib.Path('{}').touch()\nwhile not pathlib.Path('{}').exists(): time.sleep(0.05)"
    steps = (
        prove.Step("one", beside.format("a", "b"), 60, alone=False),
        prove.Step("other", beside.format("b", "a"), 60, alone=False),
        prove.Step("fails", "print('why'); raise SystemExit(4)", 60),
        prove.Step("slow", "import time; time.sleep(60)", 1),
    )
    ended = {d.name: d for d in prove.run(steps, tmp_path, budget=1000.0)}
    assert {n: d.outcome for n, d in ended.items()} == {
        "one": "passed",
        "other": "passed",
        "fails": "failed",
        "slow": "too slow",
    }
    assert ended["fails"].status == 4
    assert (tmp_path / "fails.log").read_text() == "why\n"
    assert len(json.loads((tmp_path / "steps.json").read_text())) == 4
    (left,) = prove.run(steps[:1], tmp_path, budget=5.0)
    assert left.outcome == "left out"


def test_ctrl_c_leaves_no_step_running(prove, tmp_path, monkeypatch):
    monkeypatch.setattr(prove, "words", lambda command: [sys.executable, "-c", command])
    begun = tmp_path / "begun"
    step = prove.Step("long", f"import os, time; open({str(begun)!r}, 'w').write(str(os.getpid())); time.sleep(60)", 60)
    sleep = time.sleep

    def interrupted(seconds):
        sleep(seconds)
        if begun.exists() and begun.read_text():
            raise KeyboardInterrupt

    monkeypatch.setattr(prove.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prove.run((step,), tmp_path, budget=1000.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_without_a_gpu_it_exits_with_3_and_writes_nothing(tmp_path):
    found = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "prove.py"), "proof"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, list(tmp_path.iterdir())) == (3, [])
    assert "no CUDA device" in found.stderr
