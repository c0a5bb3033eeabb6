"""docs/tutorial.md keeps its word: its commands run and print what it shows, and its signatures are called as it says."""

import ast
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from command import softcheck
from variants.test_adapt import LAUNCHES, RECOGNISED

from softcheck.variants.forms import Form
from softcheck.variants.recognise import guesses

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = [
    re.findall(r"\$ softcheck (.*)\n((?:[^$].*\n|\n)*)", block) for block in re.findall(r"```console\n([^`]*)```", TEXT)
]
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in TEXT.splitlines() if line.startswith("| `")]
OF_A_TRIAL = re.compile(r"f\((x\d.*|x\.mT|copy|\(x, out\)|x, torch.zeros.*)\).*|f\(x\)\[.*\]")
"""Calls that no name tells; tests/variants/test_adapt.py tries them."""


@pytest.fixture(scope="module", params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, device):
    made = tmp_path_factory.mktemp("session")
    for file in (*(ROOT / "examples").glob("*.py"), ROOT / "tests" / "kernels" / "signatures.py"):
        shutil.copy(file, made)
    return made


@pytest.mark.parametrize("block", BLOCKS, ids=[block[0][0][:60] for block in BLOCKS])
def test_commands_print_what_the_tutorial_shows(folder, device, block):
    for command, expected in block:
        done = softcheck(*shlex.split(command.replace("--device interpreter", f"--device {device}")), cwd=folder)
        printed = f"{done.stdout}\n{done.stderr}"
        at = 0
        for line in filter(lambda line: line and line != "…", expected.splitlines()):
            at = printed.find(line, at)
            assert at >= 0, f"{line!r} is not in:\n{printed}"
        assert done.returncode == (1 if "1 fail" in expected else 0)


def test_there_are_enough_signatures_and_commands():
    assert len(ROWS) >= 30
    assert len(BLOCKS) >= 6


def test_signatures_are_called_as_the_table_says():
    told = 0
    for signature, _, called in ROWS:
        written = re.findall(r"`(.+?)`", signature)[0]
        call = called.strip("|` ")
        if call.startswith("f"):
            Form(call)
        if re.fullmatch(r"softmax\(.*\)", written) and not OF_A_TRIAL.fullmatch(call):
            space = {}
            exec(compile(ast.parse(f"def {written}: pass"), "<table>", "exec"), space)
            assert guesses(space["softmax"])[0].text == call, signature
            told += 1
    assert told >= 15


def test_every_signature_is_judged_as_it_stands(folder, device):
    """One report of all of them: a GPU's kernels and memory are recognised as the interpreter's are."""
    names = [*RECOGNISED, *LAUNCHES] if device == "cuda" else ["four_dimensions", "row_into_output", "tuned_kernel"]
    done = softcheck(
        "report",
        *(f"signatures.py:{name}" for name in names),
        "--case",
        "ties/halves-9/*",
        "--dtype",
        "fp16",
        "--device",
        device,
        "--no-speed",
        "--format",
        "json",
        cwd=folder,
    )
    report = json.loads(done.stdout)
    assert {row["name"]: row["verdict"] for row in report["variants"]} == {
        f"signatures.py:{name}": "pass" for name in names
    }
    notes = " ".join(report["notes"])
    for name in names:
        call = (RECOGNISED | LAUNCHES)[name]
        assert not call or f"called as {call}" in notes, (name, call)
