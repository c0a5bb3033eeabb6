"""README and docs keep their word: commands are valid, quoted outputs are printed, and signatures are called as they say."""

import ast
import json
import re
import shlex
import shutil
from pathlib import Path

import click
import numpy as np
import pytest
import readme_blocks
from command import parse, softcheck
from variants.test_adapt import LAUNCHES, RECOGNISED

from softcheck.contract import FindingKind
from softcheck.operations.registry import operation
from softcheck.variants.forms import Form
from softcheck.variants.recognise import guesses

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
COMMANDS = [(page, c) for page, text in PAGES.items() for c in readme_blocks.commands(text) if "softcheck" in c]
CHECKED = [(page, block) for page, text in PAGES.items() for block in readme_blocks.blocks(text) if block.checked]
BLOCKS = [
    re.findall(r"\$ softcheck (.*)\n((?:[^$].*\n|\n)*)", block)
    for page in ("tutorial", "own_kernel", "operations", "adding_an_operation", "corpora")
    for block in re.findall(r"```console\n([^`]*…[^`]*)```", PAGES[f"docs/{page}.md"])
]
"""Commands of a block, each with the lines that it prints. `…` stands for what is left out, so a block with one is run."""

FILES = {
    name: text for page in PAGES.values() for name, text in re.findall(r"```python\n# (\w+\.py)\n([^`]*)```", page)
}
"""Files that pages show as a whole, by name."""

ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGES["docs/own_kernel.md"].splitlines()
    if line.startswith("| `")
]
OF_A_TRIAL = re.compile(r"f\((x\d.*|x\.mT|copy|\(x, out\))\).*|f\(x\)\[.*\]")
"""Calls that no name tells; tests/variants/test_adapt.py tries them."""


@pytest.fixture(scope="module", params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, device):
    made = tmp_path_factory.mktemp("session")
    kernels = (
        ROOT / "tests" / "kernels" / name
        for name in (
            "signatures.py",
            "masked.py",
            "row_answers.py",
            "backwards.py",
            "attentions.py",
            "losses.py",
            "transformed.py",
        )
    )
    for file in (*(ROOT / "examples").glob("*.py"), *kernels):
        shutil.copy(file, made)
    shutil.copy(ROOT / "examples" / "padded_with_zero.py", made / "my_kernels.py")
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
    np.save(made / "logits.npy", np.random.default_rng(0).normal(size=(4, 100)).astype(np.float16))
    return made


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_command_is_a_valid_invocation(page, command, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    if "/adding_" in page:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "logmeanexp.py").write_text(FILES["logmeanexp.py"], encoding="utf-8")
    for arguments in readme_blocks.invocations(command):
        parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [["report", "--no-such-option"], ["no-such-command"], ["corpus", "no-such-command"], ["report", "--dtype"]],
)
def test_an_invalid_invocation_is_noticed(arguments):
    with pytest.raises(click.UsageError):
        parse(arguments)


@pytest.mark.parametrize(("page", "block"), CHECKED, ids=[f"{page}:{block.line}" for page, block in CHECKED])
def test_quoted_output_is_what_the_command_prints(page, block):
    program, *arguments = shlex.split(block.checked)
    assert program == "softcheck", "only softcheck's own output can be checked"
    assert block.commands in ([], [block.checked]), "the block shows another command than the one that is checked"
    done = softcheck(*arguments, cwd=ROOT)
    assert block.output == done.stdout, f"{block.checked} (exit {done.returncode}); stderr: {done.stderr}"


@pytest.mark.parametrize("block", BLOCKS, ids=[block[0][0][:60] for block in BLOCKS])
def test_commands_print_what_a_page_shows(folder, device, block):
    for command, expected in block:
        words = shlex.split(command.replace("--device interpreter", f"--device {device}"))
        done = softcheck(*words, cwd=folder, SOFTCHECK_DEVICE=device)
        printed = f"{done.stdout}\n{done.stderr}"
        at = 0
        for line in filter(lambda line: line and line != "…", expected.splitlines()):
            at = printed.find(line, at)
            assert at >= 0, f"{line!r} is not in:\n{printed}"
        assert done.returncode == (1 if "1 fail" in expected or "sum_violation" in expected else 0)


def test_an_example_of_drawn_operands_runs(folder, monkeypatch):
    (example,) = re.findall(r"```python\n([^`]*strategies[^`]*)```", PAGES["docs/pytest.md"])
    monkeypatch.syspath_prepend(folder)
    space = {}
    exec(compile(example, "<docs/pytest.md>", "exec"), space)
    space["test_ignored_rows_cost_nothing"]()


def test_an_operation_of_ones_own_is_short():
    assert 20 < len(FILES["logmeanexp.py"].splitlines()) <= 60


def test_there_are_enough_signatures_and_commands():
    assert len(ROWS) >= 30
    assert len(BLOCKS) >= 8
    assert len(CHECKED) >= 4


def test_the_contract_names_every_kind_of_finding():
    assert {str(kind) for kind in FindingKind} <= set(re.findall(r"`(\w+)`", PAGES["docs/contract.md"]))


def test_headings_that_code_refers_to_are_there():
    files = (file for folder in ("softcheck", "oracles", "benchmarks") for file in (ROOT / folder).rglob("*.py"))
    cited = {
        found for file in files for found in re.findall(r"(docs/\w+\.md)#([\w-]*\w)", file.read_text(encoding="utf-8"))
    }
    headings = {page: re.findall(r"^#+ (.+)$", text, re.MULTILINE) for page, text in PAGES.items()}
    anchors = {(page, each.lower().replace(" ", "-")) for page, found in headings.items() for each in found}
    assert len(cited) >= 8
    assert cited - anchors == set()


def test_signatures_are_called_as_the_table_says():
    told, softmax = 0, operation("softmax")
    for signature, called in ROWS:
        written = re.findall(r"`(.+?)`", signature)[0]
        call = called.strip("|` ")
        if call.startswith("f"):
            Form(call)
        if re.fullmatch(r"softmax\(.*\)", written) and not OF_A_TRIAL.fullmatch(call):
            space = {}
            exec(compile(ast.parse(f"def {written}: pass"), "<table>", "exec"), space)
            assert guesses(space["softmax"], softmax)[0].text == call, signature
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
    calls = " ".join(report["calls"])
    for name in names:
        call = (RECOGNISED | LAUNCHES)[name]
        assert f"called as {call or 'f(x)'}: softmax" in calls, (name, call)
