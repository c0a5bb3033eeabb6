"""``softcheck search``: the worst row beside random sampling, exit codes, and what can be saved."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import softcheck
from test_report_command import HOSTILE, KERNELS

NARROW = str(KERNELS / "narrow.py")
SAVED = ["--save", "--format", "json"]
FAST = ["--device", "interpreter", "--columns", "8"]


def search(*arguments, **more):
    done = softcheck("search", *FAST, "--format", "json", *arguments, **more)
    return done, json.loads(done.stdout) if done.stdout else None


def test_right_variant_exits_0_with_both_maxima_and_a_witness(tmp_path):
    done, report = search("torch", "--rounds", "30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,), (found,) = report["variants"], report["searches"]
    assert (row["verdict"], row["ulp_is"], row["findings"]) == ("pass", "at least", [])
    assert 0 < found["random"] <= 1
    assert 0 < found["found"] <= row["max_bound_share"] <= 1
    assert row["elements"] == 2 * found["elements"] == 2 * 30 * found["rows_per_launch"] * 8
    assert {"column", "input_bits", "output_bits", "exact"} <= set(found["witness"])
    assert row["mean_ulp"] is None, "a figure that was not measured is null"
    assert not (tmp_path / "corpora").exists(), "nothing is saved unasked"


def test_table_shows_search_and_random_side_by_side():
    done = softcheck("search", *FAST, "torch", "--rounds", "20")
    assert done.returncode == 0, done.stderr
    assert "error/bound by search ≥ 0." in done.stdout
    assert "by random rows ≥ 0." in done.stdout
    assert "1.02e+04 elements each in 20 rounds" in done.stdout


def test_finding_exits_1_with_a_command_that_saves_an_input_that_fails(tmp_path):
    done, report = search(f"{NARROW}:narrow", "--rounds", "200", cwd=tmp_path)
    assert done.returncode == 1
    (row,) = report["variants"]
    finding = next(f for f in row["findings"] if f["kind"] == "ulp_exceeds_bound")
    again = shlex.split(finding["reproduce"])
    assert again[:3] == ["softcheck", "corpus", "add"]
    saved = softcheck(*again[1:], "--device", "interpreter", cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr


def test_worst_row_is_saved_and_can_be_run(tmp_path):
    done, report = search("torch", "--rounds", "5", "--save", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "corpora" / "regressions" / "search.jsonl"
    (line,) = file.read_text().splitlines()
    case = json.loads(line)
    assert case["tags"] == ["search"]
    assert case["id"] in done.stderr
    ran = softcheck("report", "--variant", "torch", "--corpus", str(file), "--device", "interpreter", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    again, _ = search("torch", "--rounds", "5", "--save", cwd=tmp_path)
    assert "saved already" in again.stderr
    # The printed command saves the same input.
    words = shlex.split(report["searches"][0]["save"])
    (tmp_path / "other").mkdir()
    other = softcheck(*words[1:], "--to", "x.jsonl", cwd=tmp_path / "other")
    assert other.returncode == 0, other.stderr
    assert json.loads((tmp_path / "other" / "x.jsonl").read_text())["digest"] == case["digest"]


def test_hostile_variants_cost_findings_and_lose_no_other(tmp_path):
    names = [f"{HOSTILE}:{name}" for name in ("raises", "exits", "healthy")]
    done, report = search(*names, "--rounds", "2", "--columns", "3", "--dtype", "float16", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    verdicts = {Path(row["name"]).name: [f["kind"] for f in row["findings"]] for row in report["variants"]}
    assert verdicts == {"hostile.py:raises": ["raised"], "hostile.py:exits": ["crash"], "hostile.py:healthy": []}
    crash = report["variants"][1]["findings"][0]
    again = softcheck(*shlex.split(crash["reproduce"])[1:], cwd=tmp_path)
    assert again.returncode == 1


def test_refused_variant_is_an_error_and_the_others_are_searched(tmp_path):
    done, report = search(f"{HOSTILE}:nothing", "torch", "--rounds", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "returned NoneType" in done.stderr
    assert len(report["searches"]) == 1


def test_declared_defect_is_known(tmp_path):
    done, report = search("exp2_prescaled", "--rounds", "3", "--rows", "16", "--dtype", "bfloat16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert report["variants"][0]["verdict"] == "known"
    assert all(f["known"] for f in report["variants"][0]["findings"])


def test_report_of_a_search_can_be_drawn_anew(tmp_path):
    done = softcheck("search", *FAST, "torch", "--rounds", "2", "--format", "json", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for output_format in ("table", "markdown", "summary"):
        drawn = softcheck("render", "r.json", "--format", output_format, cwd=tmp_path)
        assert drawn.returncode == 0, drawn.stderr
        assert ("by random rows" in drawn.stdout) == (output_format != "summary")


def test_ctrl_c_prints_and_saves_what_was_found_and_names_what_was_not_searched(tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import pathlib, torch\n\ndef f(x):\n"
        f"    if x.shape[0] > 8:\n        pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "    return torch.softmax(x, -1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "softcheck", "search", *FAST, f"{slow}:f", "torch", "--seconds", "300", *SAVED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(KERNELS.parents[1])},
        # A suite that a shell started in the background inherits SIGINT ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
    ) as running:
        try:
            for _ in range(1200):
                if (tmp_path / "begun").exists():
                    break
                time.sleep(0.1)
            running.send_signal(signal.SIGINT)
            output, said = running.communicate(timeout=120)
        finally:
            running.kill()
    assert running.returncode == 130, said
    report = json.loads(output)
    assert report["interrupted"]
    (found,) = report["searches"]
    assert found["found"] > 0
    assert report["notes"][-2:] == [
        "interrupted: the figures are of what had been found by then",
        "not searched: torch",
    ]
    assert len((tmp_path / "corpora" / "regressions" / "search.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["torhc"], "did you mean 'torch'"),
        (["torch", "--dtype", "float64"], "float64"),
        (["torch", "--rounds", "0"], "rounds"),
        (["one_block", "--columns", "1048576", "--rounds", "1"], "columns"),
    ],
)
def test_wrong_usage_exits_2(tmp_path, arguments, said):
    done, _ = search(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
