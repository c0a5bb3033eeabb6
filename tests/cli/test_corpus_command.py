"""``softcheck corpus``: from a failing input to a saved regression."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import softcheck
from test_report_command import HOSTILE

BITS = "3c00 0000 bc00; 4000 3800 0000"


def saved(folder):
    lines = (Path(folder) / "corpora" / "regressions" / "regressions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_bits_are_shrunk_saved_and_found_again(tmp_path):
    variant = f"{HOSTILE}:leaves_tail"
    done = softcheck(
        "corpus",
        "add",
        "--variant",
        variant,
        "--dtype",
        "float16",
        "--bits",
        BITS,
        "--device",
        "interpreter",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "shrunk from 2x3 to 1x3" in done.stdout
    (case,) = saved(tmp_path)
    assert case["shape"] == [1, 3]
    assert "unwritten_output" in case["provenance"]
    again = softcheck(
        "corpus", "run", "--variant", variant, "--dtype", "float16", "--device", "interpreter", cwd=tmp_path
    )
    assert again.returncode == 1, again.stderr
    fixed = softcheck(
        "corpus", "run", "--variant", "torch", "--dtype", "float16", "--device", "interpreter", cwd=tmp_path
    )
    assert fixed.returncode == 0, fixed.stderr


def test_duplicate_is_refused_and_nothing_changes(tmp_path):
    add = ["corpus", "add", "--dtype", "float16", "--bits", BITS]
    assert softcheck(*add, cwd=tmp_path).returncode == 0
    before = saved(tmp_path)
    again = softcheck(*add, "--name", "other", cwd=tmp_path)
    assert again.returncode == 2
    assert "saved already" in again.stderr
    assert saved(tmp_path) == before


def test_input_that_does_not_fail_is_no_regression(tmp_path):
    done = softcheck(
        "corpus",
        "add",
        "--variant",
        "torch",
        "--dtype",
        "float16",
        "--bits",
        BITS,
        "--device",
        "interpreter",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "does not break" in done.stderr
    assert not (tmp_path / "corpora").exists()


def test_finding_of_a_report_becomes_a_regression(tmp_path):
    variant = f"{HOSTILE}:uniform"
    result = tmp_path / "result.json"
    arguments = ["--variant", variant, "--dtype", "float16", "--case", "ties/*/float16", "--device", "interpreter"]
    assert softcheck("report", *arguments, "--format", "json", "--output", str(result)).returncode == 1
    finding = next(
        f for f in json.loads(result.read_text())["variants"][0]["findings"] if f["kind"] == "ulp_exceeds_bound"
    )
    done = softcheck(
        *("corpus", "add", "--report", str(result), "--finding", finding["id"], "--name", "uniform"),
        *("--device", "interpreter"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (case,) = saved(tmp_path)
    assert case["id"] == "regression/uniform/float16"
    assert case["shape"][0] == 1


def test_npy_file_is_saved_as_its_bits(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1.0, -np.inf]], dtype=np.float32))
    done = softcheck("corpus", "add", "--file", "x.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (case,) = saved(tmp_path)
    assert case["rows"] == ["3f800000 ff800000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exactly one of"),
        (["--bits", "3c00"], "--bits needs --dtype"),
        (["--bits", "3c0", "--dtype", "float16"], "hexadecimal"),
        (["--bits", "3c00; 3c00 3c00", "--dtype", "float16"], "row 1 holds 2 elements"),
        (["--file", "missing.npy"], "missing.npy"),
        (["--finding", "abc"], "--finding needs --report"),
        (["--finding", "abc", "--report", "missing.json"], "missing.json"),
    ],
)
def test_wrong_usage_exits_2(tmp_path, arguments, said):
    done = softcheck("corpus", "add", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_verify_names_file_line_and_expectation_of_each_problem(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": "a/b/float16"}\nnonsense\n')
    done = softcheck("corpus", "verify", str(folder))
    assert done.returncode == 2
    assert f"{folder / 'a.jsonl'}:1:" in done.stderr
    assert f"{folder / 'a.jsonl'}:2:" in done.stderr


def test_list_and_show(tmp_path):
    listed = softcheck("corpus", "list", "edge")
    assert listed.returncode == 0
    first = listed.stdout.split()[0]
    shown = softcheck("corpus", "show", first)
    assert shown.returncode == 0
    assert first in shown.stdout


def test_failure_beyond_the_interpreters_rows_is_shrunk_all_the_same(tmp_path):
    kernel = tmp_path / "late.py"
    kernel.write_text(
        "import torch\n\ndef f(x):\n    y = torch.softmax(x, -1)\n    y[x[:, 0] == 7] = 0\n    return y\n"
    )
    values = np.zeros((100, 5), dtype=np.float16)
    values[60, 0] = 7
    np.save(tmp_path / "x.npy", values)
    add = ["corpus", "add", "--variant", f"{kernel}:f", "--file", "x.npy", "--device", "interpreter"]
    done = softcheck(*add, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shrunk from 100x5 to 1x1" in done.stdout


def test_the_same_input_in_another_folder_of_the_project_is_refused(tmp_path):
    add = ["corpus", "add", "--dtype", "float16", "--bits", BITS]
    assert softcheck(*add, cwd=tmp_path).returncode == 0
    again = softcheck(*add, "--to", "elsewhere/a.jsonl", cwd=tmp_path)
    assert again.returncode == 2
    assert "saved already" in again.stderr


def edited(folder, old, new):
    file = folder / "corpora" / "regressions" / "regressions.jsonl"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("command", [["corpus", "run"], ["report"]])
def test_bits_that_were_edited_by_hand_are_refused(tmp_path, command):
    assert softcheck("corpus", "add", "--dtype", "float16", "--bits", BITS, cwd=tmp_path).returncode == 0
    run = [*command, "--variant", "torch", "--dtype", "float16", "--device", "interpreter", "--family", "regression"]
    assert softcheck(*run, cwd=tmp_path).returncode == 0
    edited(tmp_path, "4000 3800 0000", "4000 3800 3c00")
    done = softcheck(*run, cwd=tmp_path)
    assert done.returncode == 2
    assert "were changed after it was saved" in done.stderr
    assert done.stdout == ""


def test_an_input_that_shrinks_to_a_saved_one_is_covered_by_it(tmp_path):
    add = ["corpus", "add", "--variant", f"{HOSTILE}:leaves_tail", "--dtype", "float16", "--device", "interpreter"]
    assert softcheck(*add, "--bits", BITS, cwd=tmp_path).returncode == 0
    before = saved(tmp_path)
    other = ["--bits", "3c00 3c00 bc00; 4000 3800 3c00; 0000 0000 0000", "--name", "other"]
    done = softcheck(*add, *other, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"covered by {before[0]['id']} at " in done.stdout
    assert "--no-shrink" in done.stdout
    assert saved(tmp_path) == before
    done = softcheck(*add, *other, "--no-shrink", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [case["shape"] for case in saved(tmp_path)] == [[1, 3], [3, 3]]


def test_nothing_is_said_of_shrinking_where_nothing_shrank(tmp_path):
    file = tmp_path / "zero.py"
    file.write_text("import torch\ndef f(x):\n    return torch.zeros_like(x)\n")
    words = ("--variant", f"{file}:f", "--dtype", "float16", "--bits", "3c00", "--device", "interpreter")
    done = softcheck("corpus", "add", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shrunk" not in done.stdout
    assert done.stdout.startswith("it fails: ")
