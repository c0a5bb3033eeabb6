"""The README keeps its word: its first command starts from nothing, and each of its figures is what the command beside it prints."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import readme_blocks
from command import softcheck

from softcheck.operations.registry import OPERATIONS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVIDENCE = " ".join((ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").split())
FIGURES = [
    [cell.strip() for cell in row.strip("|").split(" | ")] for row in README.splitlines() if row.startswith("| ")
]
PLANTED = json.loads((ROOT / "results" / "h200" / "planted.json").read_text(encoding="utf-8"))
WRONG = {s["name"]: s["caught_after"] is not None for s in PLANTED["scores"] if s["expected"]}
LET_THROUGH = {
    judge: sum(bool(PLANTED["peers"][name][judge]) for name in WRONG) for judge in next(iter(PLANTED["peers"].values()))
}
BY_ALL = sum(all(PLANTED["peers"][name].values()) for name in WRONG)


def printed(command):
    """The output of the command of a cell."""
    done = softcheck(*shlex.split(command.strip("`"))[1:], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_starts_from_nothing_with_two_commands():
    assert readme_blocks.install_commands(README) == [
        "pip install -c constraints.txt -e . && softcheck report --dtype float16",
        "pip install -c constraints.txt -e '.[test]' && pytest",
    ]


def test_the_readme_names_every_operation():
    assert [name for name in OPERATIONS if name not in README] == []


def test_the_readme_quotes_what_its_second_command_prints():
    (command,) = (c for c in readme_blocks.commands(README) if c.startswith("softcheck report examples/"))
    (block,) = (block for block in readme_blocks.blocks(README) if command in block.commands)
    done = softcheck(*shlex.split(command)[1:], "--family", "widths", "--probe", "sizes", cwd=ROOT)
    at = 0
    for line in filter(None, (part.strip() for part in re.split("…|\n", block.output))):
        at = done.stdout.find(line, at)
        assert at >= 0, f"{line!r} is not in:\n{done.stdout}"
    assert done.returncode == 1


def test_the_tolerance_passes_the_kernel_that_softcheck_fails():
    (program,) = (block.text for block in readme_blocks.blocks(README) if "allclose" in block.text)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT / "examples", env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("row", [row for row in FIGURES if "softcheck render" in row[-1]], ids=lambda row: row[0][:40])
def test_a_figure_is_printed_by_the_command_beside_it(row):
    words, figure, command = row
    (variant,) = re.findall("`(.+?)`", words)
    lines = [line for line in printed(command).splitlines() if line.startswith(f"{variant} ")]
    number = figure.partition(" ")[0]
    torch = re.findall(r"torch: ([\d.]+)", words)
    assert any(re.search(rf"[≥=]? {re.escape(number)} ", line) for line in lines), lines
    assert not torch or re.search(rf"(?m)^torch .* {re.escape(torch[0])} ", printed(command))


def test_most_figures_of_the_readme_are_checked():
    assert len([row for row in FIGURES if "softcheck render" in row[-1]]) >= 3
    assert all(WRONG.values())
    assert f"| {BY_ALL} of {len(WRONG)} | `head -14 results/h200/planted.md` |" in README
    lines = (ROOT / "results" / "h100" / "planted-unseen-wrong.md").read_text(encoding="utf-8").splitlines()
    kernels = [line for line in lines if line.startswith("| ") and not line.startswith("| kernel")]
    caught = sum(line.endswith(" s |") for line in kernels)
    assert lines[0].startswith(f"# {caught} of {len(kernels)} unseen wrong kernels caught")
    assert f"| {caught} of {len(kernels)} | `head -1 results/h100/planted-unseen-wrong.md` |" in README


@pytest.mark.parametrize(
    ("folder", "caught", "accused"),
    [
        ("h200", "{0} of {1} wrong kernels are caught", "{0} of {1} right ones accused"),
        ("interpreter", "of the others {0} of {1} are caught", "{0} of {1} accused"),
    ],
)
def test_score_is_that_of_the_saved_run(folder, caught, accused):
    saved = json.loads((ROOT / "results" / folder / "planted.json").read_text(encoding="utf-8"))
    wrong = {s["name"]: s["caught_after"] is not None for s in saved["scores"] if s["expected"]}
    right = {s["name"]: bool(s["found"]) for s in saved["scores"] if not s["expected"]}
    assert caught.format(sum(wrong.values()), len(wrong)) in EVIDENCE
    assert accused.format(sum(right.values()), len(right)) in EVIDENCE


def test_what_the_usual_tests_let_through_is_that_of_the_saved_run():
    assert f"let {min(LET_THROUGH.values())} to {max(LET_THROUGH.values())} of the {len(WRONG)} through" in EVIDENCE
    assert f"all five together {BY_ALL}" in EVIDENCE
    assert len(LET_THROUGH) == 5
