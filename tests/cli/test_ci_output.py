"""Output of commands for a CI system: annotations at the line of the code, and the summary of a step."""

import pytest
from command import softcheck

KERNELS = """
import torch


def zero(x):
    return torch.zeros_like(x)
"""
ARGUMENTS = ("--dtype", "fp16", "--family", "ties", "--device", "interpreter")


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "kernels.py").write_text(KERNELS)
    return tmp_path


def test_a_report_is_annotated_and_its_saved_json_is_annotated_alike(repository):
    folder, summary = repository / "src", repository / "summary.md"
    done = softcheck(
        "report", "kernels.py:zero", *ARGUMENTS, "--format", "github", cwd=folder, GITHUB_STEP_SUMMARY=str(summary)
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=src/kernels.py,line=5,title=kernels.py%3Azero (float16)%3A fail::")
    assert summary.read_text().startswith("## softcheck\n\n**1 variant: 1 fail;")
    saved = ("report", "kernels.py:zero", *ARGUMENTS, "--format", "json", "--output", "result.json")
    assert softcheck(*saved, cwd=folder, GITHUB_STEP_SUMMARY=".").returncode == 1
    drawn = softcheck("render", "result.json", "--format", "github", cwd=folder, GITHUB_STEP_SUMMARY=str(summary))
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert [line for line in drawn.stdout.splitlines() if line.startswith("::error")] == errors
    assert summary.read_text().count("## softcheck") == 1
    again = softcheck(
        "report", "kernels.py:zero", *ARGUMENTS, "--format", "github", "--baseline", "result.json", cwd=folder
    )
    assert again.stdout.startswith("::error file=src/kernels.py,line=5,")
    assert "::notice title=softcheck compare::0 regressions" in again.stderr


def test_exhaust_annotates_too(repository):
    summary = repository / "summary.md"
    arguments = (
        "kernels.py:zero",
        "--dtype",
        "fp16",
        "--device",
        "interpreter",
        "--format",
        "github",
        "--columns",
        "1",
    )
    done = softcheck("exhaust", *arguments, cwd=repository / "src", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=src/kernels.py,line=5,")
    assert summary.read_text().startswith("## softcheck\n\n**1 variant: 1 fail;")
