"""The README keeps its word: its commands are valid, and the outputs that it quotes as checked are what they print."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import click
import pytest
import readme_blocks

from softcheck.cli.main import cli
from softcheck.report.json_format import load_any

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = readme_blocks.commands(README)
CHECKED = [block for block in readme_blocks.blocks(README) if block.checked]


def parse(arguments: list[str]) -> None:
    """Let click parse a command line, subcommands and options included, without running the command."""
    with patch.object(click.Command, "invoke", return_value=None):
        cli.main(args=arguments, prog_name="softcheck", standalone_mode=False)


def test_the_readme_starts_from_nothing_with_two_commands():
    assert readme_blocks.install_commands(README) == [
        "pip install -c constraints.txt -e . && softcheck report --dtype float16",
        "pip install -c constraints.txt -e '.[test]' && pytest",
    ]


@pytest.mark.parametrize("command", [c for c in dict.fromkeys(COMMANDS) if readme_blocks.invocations(c)])
def test_command_is_a_valid_invocation(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    for arguments in readme_blocks.invocations(command):
        parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [["report", "--no-such-option"], ["no-such-command"], ["corpus", "no-such-command"], ["report", "--dtype"]],
)
def test_an_invalid_invocation_is_noticed(arguments):
    with pytest.raises(click.UsageError):
        parse(arguments)


def test_some_quoted_output_is_checked():
    assert CHECKED, "mark an output that does not depend on the machine with <!-- checked: COMMAND -->"


@pytest.mark.parametrize("block", CHECKED, ids=lambda block: f"line {block.line}")
def test_quoted_output_is_what_the_command_prints(block):
    program, *arguments = shlex.split(block.checked)
    assert program == "softcheck", "only softcheck's own output can be checked"
    assert block.commands in ([], [block.checked]), "the block shows another command than the one that is checked"
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    done = subprocess.run(
        [sys.executable, "-m", "softcheck.cli.main", *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert block.output == done.stdout, f"{block.checked} (exit {done.returncode}); stderr: {done.stderr}"


def test_headline_numbers_are_those_of_the_saved_results():
    results = ROOT / "results" / "h200"
    passing = {v.name: v.max_ulp for v in load_any(results / "float32.json").variants if v.verdict == "pass"}
    assert f"| {passing['multi_row']:.0f} ULP |" in README
    assert f"(torch: {passing['torch']:.0f})" in README
    pairs = {v.name: v.max_ulp for v in load_any(results / "pairs-float16.json").variants}
    assert f"| {pairs['multi_row']:.5f} ULP |" in README
    assert f"{pairs['torch']:.5f} ULP for torch" in README
    shapes = load_any(results / "speed" / "all-8192.json").shapes
    (timed,) = (f for s in shapes if s.dtype == "float32" for f in s.variants if f.variant == "one_block")
    assert f"| {timed.times_faster.mid:.2f} × torch |" in README  # noqa: RUF001 - as it is printed
    assert f"{timed.copy_share.mid * 100:.0f} % of a copy's speed" in README
    assert timed.times_faster.high / timed.times_faster.low < 1.02


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
    prose = " ".join(README.split())
    assert caught.format(sum(wrong.values()), len(wrong)) in prose
    assert accused.format(sum(right.values()), len(right)) in prose


def test_what_the_usual_tests_let_through_is_that_of_the_saved_run():
    saved = json.loads((ROOT / "results" / "h200" / "planted.json").read_text(encoding="utf-8"))
    wrong = [s["name"] for s in saved["scores"] if s["expected"]]
    judges = list(next(iter(saved["peers"].values())))
    passed = {j: sum(bool(saved["peers"][name][j]) for name in wrong) for j in judges}
    together = sum(all(saved["peers"][name].values()) for name in wrong)
    assert f"let {min(passed.values())} to {max(passed.values())} of the {len(wrong)} through" in README
    assert f"all five together {together}" in README
    assert len(judges) == 5
