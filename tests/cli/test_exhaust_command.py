"""``softcheck exhaust``: everything there is, resumable, and a wrong kernel found."""

import json
import re
from pathlib import Path

import pytest
from command import softcheck
from test_report_command import HOSTILE

from softcheck.run.journal import _MAGIC, _framed, _records

FAST = ["--dtype", "float16", "--device", "interpreter", "--format", "json"]


def exhaust(*arguments, **more):
    done = softcheck("exhaust", *FAST, *arguments, **more)
    return done, json.loads(done.stdout) if done.stdout else None


def test_every_single_column_row_is_judged_and_the_maximum_is_exact(tmp_path):
    done, report = exhaust("torch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,), (behind,) = report["variants"], report["exhaustive"]
    assert (row["verdict"], row["ulp_is"], row["max_ulp"]) == ("pass", "exact", 0.0)
    assert (behind["rows"], behind["nan_rows"], behind["fully_masked_rows"]) == (65536, 2047, 1)
    assert behind["ordinary_rows"] == sum(b["elements"] for b in behind["histogram"]) == 63488
    assert not list((tmp_path / ".softcheck").iterdir()), "a finished run leaves no journal"


def test_kernel_wrong_on_one_pattern_alone_is_found(tmp_path):
    kernel = tmp_path / "rare.py"
    kernel.write_text(
        "import torch\n\ndef f(x):\n    y = torch.softmax(x, -1)\n    y[x == 0.333251953125] = 0.5\n    return y\n"
    )
    done, report = exhaust(f"{kernel}:f", cwd=tmp_path)
    assert done.returncode == 1
    finding = next(f for f in report["variants"][0]["findings"] if f["kind"] == "ulp_exceeds_bound")
    assert finding["count"] == 1
    assert finding["reproduce"].endswith("--dtype float16 --bits 3555")


def test_run_that_was_killed_goes_on(tmp_path):
    once = tmp_path / "once.py"
    once.write_text(
        "import os, pathlib, torch\n\ndef f(x):\n    if x.shape[0] == 1024:\n"
        f"        with open({str(tmp_path / 'calls')!r}, 'a') as calls:\n            calls.write('x')\n"
        "    return torch.softmax(x, -1)\n"
    )
    journal = tmp_path / "journal"
    arguments = [f"{once}:f", "--sample-first", "8192", "--journal", str(journal)]
    _, whole = exhaust(*arguments, cwd=tmp_path)
    calls = len((tmp_path / "calls").read_text())
    assert calls == 8
    # A journal as a kill leaves it: some parts, the last one torn.
    done = _keeping_its_journal(arguments, tmp_path)
    assert done.returncode == 0
    whole_journal = journal.read_bytes()
    sizes = [len(_framed(record)) for record in _records(journal)]
    journal.write_bytes(whole_journal[: len(_MAGIC) + sum(sizes[:4]) + 50])
    (tmp_path / "calls").unlink()
    done, resumed = exhaust(*arguments, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "calls").read_text()) == calls - 3
    same = [{k: v for k, v in r["variants"][0].items() if k != "seconds"} for r in (whole, resumed)]
    assert same[0] == same[1]


def _keeping_its_journal(arguments, folder):
    """Runs once more with file removal disabled, since a finished run removes its journal."""
    import subprocess
    import sys

    code = (
        "import sys, pathlib\nfrom softcheck.cli import main\n"
        "pathlib.Path.unlink = lambda self, missing_ok=False: None\nmain.main(sys.argv[1:])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "exhaust", *FAST, *arguments], cwd=folder, capture_output=True, check=False
    )


def test_journal_of_another_run_is_refused(tmp_path):
    journal = tmp_path / "journal"
    journal.write_text('{"variant": "x"}\n')
    done, _ = exhaust("torch", "--resume", "--journal", str(journal), cwd=tmp_path)
    assert done.returncode == 2
    assert "no journal of softcheck" in done.stderr


def test_kernel_that_ends_every_process_is_given_up_and_another_is_judged_all_the_same(tmp_path):
    crashing = f"{Path(__file__).parents[1] / 'kernels' / 'crashing.py'}:exits_always"
    done, report = exhaust(crashing, "torch", "--sample-first", "8192", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    broken, right = report["variants"]
    assert [(f["kind"], f["count"]) for f in broken["findings"]] == [("crash", 5), ("crash", 3)]
    assert "ended with exit status 3" in broken["findings"][0]["message"]
    assert "3 of 8 parts were not run, 3,072 rows, row 5120 the first" in broken["findings"][1]["message"]
    assert (broken["verdict"], right["verdict"]) == ("fail", "pass")
    assert [b["rows"] for b in report["exhaustive"]] == [5120, 8192]
    assert [note.partition(":")[0] for note in report["notes"]] == ["torch"], "nothing is told of time not measured"
    assert not list((tmp_path / ".softcheck").iterdir())


REFUSING = """
import torch
from softcheck import variant

def beyond(x):
    if x.shape[-1] > 1:
        raise ValueError("one column only")
    return torch.softmax(x, dim=-1)

def two_alone(x):
    if x.shape[1] == 2:
        raise ValueError("not two")
    return torch.softmax(x, dim=-1)

def many_rows(x):
    if x.shape[0] > 500:
        raise ValueError("too many rows")
    return torch.softmax(x, dim=-1)

@variant(max_columns=1)
def declared(x):
    return beyond(x)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("beyond", "refuses beyond 1 columns (2 is the smallest refused): ValueError: one column only"),
        ("many_rows", "rows (1024 is the smallest refused): ValueError: too many rows"),
        ("declared", "it declares max_columns=1"),
    ],
)
def test_what_the_variant_refuses_is_not_run_and_that_is_no_pass(tmp_path, name, said):
    (tmp_path / "refusing.py").write_text(REFUSING)
    arguments = (f"{tmp_path / 'refusing.py'}:{name}", "--columns", "2", "--sample-first", "3072")
    done, report = exhaust(*arguments, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    (row,) = report["variants"]
    assert row["verdict"] == "unsupported"
    assert said in row["reason"]
    assert not report["exhaustive"]
    assert not list(tmp_path.glob(".softcheck/*"))
    done, report = exhaust(*arguments, "torch", cwd=tmp_path)
    assert (done.returncode, [r["verdict"] for r in report["variants"]]) == (0, ["unsupported", "pass"])


def test_a_refusal_beyond_which_there_is_an_answer_stays_a_finding(tmp_path):
    (tmp_path / "refusing.py").write_text(REFUSING)
    arguments = ("--columns", "2", "--sample-first", "3072")
    done, report = exhaust(f"{tmp_path / 'refusing.py'}:two_alone", *arguments, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [f["kind"] for f in report["variants"][0]["findings"]] == ["raised"]


def test_a_verdict_and_the_time_that_is_left_stand_before_the_first_part_is_run(tmp_path):
    kernel = tmp_path / "slow.py"
    kernel.write_text(
        "import os, torch\n\ndef f(x):\n    if x.shape[0] == 1024:\n        os._exit(7)\n"
        "    return torch.where(x == float('inf'), 0, torch.softmax(x, -1))\n"
    )
    done, report = exhaust(f"{kernel}:f", "--sample-first", "65536", cwd=tmp_path)
    assert "nan_mismatch: row 31744, " in done.stderr, "the row of the domain"
    assert "--dtype float16 --bits 7c00" in done.stderr
    assert re.search(r"f float16: fail so far, on \d+ adversarial rows; 65,536 rows will take about \d+ s", done.stderr)
    assert done.returncode == 1
    assert [f["count"] for f in report["variants"][0]["findings"]] == [5, 59], "what the look found is no part"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["torhc"], "did you mean 'torch'"),
        (["torch", "--differences", "--any-order"], "--any-order"),
        (["torch", "--differences"], "float32"),
        ([f"{HOSTILE}:nothing"], "returned NoneType"),
    ],
)
def test_wrong_usage_exits_2(tmp_path, arguments, said):
    done, _ = exhaust(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_one_column_says_how_little_it_shows_and_pairs_find_what_it_can_not(tmp_path):
    padded = str(Path(__file__).parents[2] / "examples" / "padded_with_zero.py") + ":softmax"
    summary = ["exhaust", padded, "--dtype", "float16", "--device", "interpreter", "--format", "summary"]
    one = softcheck(*summary, "--sample-first", "64", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    assert "one column shows NaN, infinities and masks alone" in one.stdout.splitlines()[-1]
    assert "--columns 2" in one.stdout.splitlines()[-1]
    three = softcheck(*summary, "--columns", "3", "--sample-first", "4000", cwd=tmp_path)
    assert three.returncode == 1
    assert "one column" not in three.stdout
