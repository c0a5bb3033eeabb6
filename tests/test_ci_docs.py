"""The action and docs/ci.md keep their word: published schemas accept them, and softcheck accepts every command in them."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import readme_blocks
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from command import parse
from ruamel.yaml import YAML

from softcheck.report.formats import FORMATS
from softcheck.report.json_format import render

sys.path.insert(0, str(Path(__file__).parent / "report"))
from sample_reports import INTERPRETED, PASSING

ROOT = Path(__file__).resolve().parents[1]

TEXT = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
BLOCKS = {
    block.text.partition("\n")[0].removeprefix("# "): block.text
    for block in readme_blocks.blocks(TEXT)
    if block.language == "yaml"
}
SETTINGS = {
    "VARIANTS": "torch",
    "ARGUMENTS": "--dtype fp16 --case normal/scale-3-129/* --device interpreter",
    "BASELINE": "baseline.json",
    "COMPARE": "--max-slowdown 0.05",
    "OUTPUT": "results",
}
"""Inputs of the action, as its steps get them."""


def refusals(text, schema, tmp_path):
    """Objections of a published schema, which check-jsonschema holds, to a document; empty where nothing."""
    file = tmp_path / "document.yml"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", str(file)])
    return "" if done.exit_code == 0 else done.output


def schema_of(name):
    return "gitlab-ci" if name == ".gitlab-ci.yml" else "github-workflows"


def scripts(document):
    """Shell scripts of a workflow, of an action or of GitLab's jobs, wherever they stand."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key in {"run", "script"}:
                yield value if isinstance(value, str) else "\n".join(value)
            else:
                yield from scripts(value)
    elif isinstance(document, list):
        for item in document:
            yield from scripts(item)


def calls(script):
    """Arguments of each call of softcheck in a shell script, its variables replaced by the settings."""
    script = script.replace(' "$@"', "")
    for name, value in SETTINGS.items():
        script = re.sub(rf"\${name}\b", value, script)
    lines = [line for line in re.sub(r"\\\n\s*", "", script).splitlines() if re.search(r"\bsoftcheck [a-z]", line)]
    for line in lines:
        found = readme_blocks.invocations(line)
        assert found or line.lstrip().startswith("#"), line
        yield from found


CALLS = {
    f"{name}: {' '.join(call)}"[:90]: call
    for name, text in {**BLOCKS, "action.yml": ACTION}.items()
    for script in scripts(YAML(typ="safe").load(text))
    for call in calls(script)
} | {
    f"prose: {words}": call
    for words in re.findall(r"`(softcheck [^`]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    for call in calls(words)
}


def test_the_page_has_workflows_for_both_and_names_every_format_of_ci():
    assert sum(name.startswith(".github/workflows/") for name in BLOCKS) >= 3
    assert ".gitlab-ci.yml" in BLOCKS
    named = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert set(named) == set(FORMATS) - {"table", "summary", "json"}
    assert len(CALLS) >= 12


@pytest.mark.parametrize("name", BLOCKS)
def test_a_workflow_is_one_by_its_published_schema(name, tmp_path):
    assert refusals(BLOCKS[name], schema_of(name), tmp_path) == ""


def test_the_action_is_one_by_its_published_schema(tmp_path):
    assert refusals(ACTION, "github-actions", tmp_path) == ""


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        (ACTION.replace("using: composite", "using: componsite"), "github-actions"),
        (BLOCKS[".github/workflows/softcheck.yml"].replace("runs-on", "run-on"), "github-workflows"),
        (BLOCKS[".gitlab-ci.yml"].replace("when: always", "when: sometimes"), "gitlab-ci"),
    ],
)
def test_a_schema_notices_a_mistake(text, schema, tmp_path):
    assert refusals(text, schema, tmp_path)


def test_workflows_give_the_action_inputs_that_it_has():
    action = YAML(typ="safe").load(ACTION)
    used = 0
    for name, text in BLOCKS.items():
        jobs = YAML(typ="safe").load(text).get("jobs", {})
        for step in (step for job in jobs.values() for step in job["steps"]):
            if step.get("uses", "").startswith("OWNER/softcheck"):
                assert set(step["with"]) <= set(action["inputs"]), name
                assert {n for n, each in action["inputs"].items() if each.get("required")} <= set(step["with"])
                used += 1
    assert used >= 3


def test_no_input_is_written_into_a_script():
    """Expressions in a script's text would be run as a part of it, whoever opened the pull request."""
    for name, text in {**BLOCKS, "action.yml": ACTION}.items():
        assert not [script for script in scripts(YAML(typ="safe").load(text)) if "${{" in script], name


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_command_is_one(call, tmp_path, monkeypatch):
    (tmp_path / "my_kernels.py").touch()
    monkeypatch.chdir(tmp_path)
    parse(call)


@pytest.fixture
def judge(tmp_path):
    """Runs the action's script that judges, in bash as GitHub does; returns the exit code, the output and the two files."""
    (script,) = (text for text in scripts(YAML(typ="safe").load(ACTION)) if "softcheck report" in text)
    program = tmp_path / "bin" / "softcheck"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m softcheck "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(**settings):
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                **SETTINGS,
                **settings,
                **{name: str(file) for name, file in files.items()},
                "PATH": f"{program.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done, *(file.read_text() if file.exists() else "" for file in files.values())

    return run


def test_the_action_keeps_every_file_and_ends_with_1_where_a_baseline_was_better(judge, tmp_path):
    """The baseline promises more than the interpreter's numpy can keep."""
    perfect = msgspec.structs.replace(PASSING, name="torch", max_ulp=0.0)
    (tmp_path / "baseline.json").write_text(render(msgspec.structs.replace(INTERPRETED, variants=(perfect,))))
    done, output, summary = judge()
    assert (done.returncode, output) == (1, "exit-code=1\n"), done.stderr
    kept = {"report.json", "report.html", "report.sarif", "junit.xml", "comparison.md"}
    assert {file.name for file in (tmp_path / "results").iterdir()} == kept
    report, worse, compared = done.stdout.splitlines()
    assert report.startswith("::notice title=softcheck::1 variant: 1 pass;")
    assert worse.startswith("::error file=softcheck/variants/builtin/torch_native.py,line=")
    assert compared.startswith("::notice title=softcheck compare::1 regression")
    for name in ("comparison.md", "report.html"):
        assert "REGRESSION" in (tmp_path / "results" / name).read_text()
    assert [line for line in summary.splitlines() if line.startswith("## ")] == ["## softcheck", "## softcheck compare"]


def test_the_action_ends_as_softcheck_does_where_nothing_can_be_judged(judge, tmp_path):
    done, output, _ = judge(VARIANTS="no_such_variant")
    assert (done.returncode, output) == (2, "exit-code=2\n")
    assert "unknown variant 'no_such_variant'" in done.stderr
    assert list((tmp_path / "results").iterdir()) == []
