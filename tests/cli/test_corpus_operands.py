"""``softcheck corpus`` with operands beside the matrix: added, shrunk, shown, run again, and refused."""

import json

import numpy as np
import pytest
from command import softcheck

KERNEL = """
import torch


def loss(x, target):
    found = torch.nn.functional.cross_entropy(x, target, reduction="none")
    return found + (target == 2)


def softmax(x, mask):
    found = torch.softmax(x.masked_fill(mask, -float("inf")), -1)
    return torch.where((x == 7).any(), found.flip(-1), found)
"""

OPTIONS = ("--dtype", "float32", "--device", "interpreter")
ROWS = "3f800000 00000000 40000000 3f000000; 00000000 3f800000 bf800000 40400000"


@pytest.fixture
def kernels(tmp_path):
    (tmp_path / "mine.py").write_text(KERNEL)
    return tmp_path


def saved(folder):
    lines = (folder / "corpora" / "regressions" / "regressions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_target_is_saved_with_what_is_left_of_its_row(kernels):
    variant = ("mine.py:loss", "--operation", "cross_entropy", *OPTIONS)
    done = softcheck("corpus", "add", *variant, "--bits", ROWS, "--beside", "target=0 2", cwd=kernels)
    assert done.returncode == 0, done.stderr
    (case,) = saved(kernels)
    assert case["operands"] == {"target": [2]}
    assert case["shape"] == [1, 3]
    assert softcheck("corpus", "run", *variant, cwd=kernels).returncode == 1
    shown = softcheck("corpus", "show", case["id"], cwd=kernels).stdout
    assert "  target  2\n" in shown
    assert softcheck("corpus", "verify", "corpora/regressions", cwd=kernels).returncode == 0


def test_a_mask_hides_what_stands_behind_it(kernels):
    np.save(kernels / "x.npy", np.array([[1, 7, 2, 0], [3, 1, 0, 0]], dtype=np.float32))
    np.save(kernels / "mask.npy", np.array([[0, 1, 0, 0], [0, 0, 0, 1]], dtype=bool))
    beside = ("--file", "x.npy", "--beside", "mask=mask.npy")
    done = softcheck("corpus", "add", "mine.py:softmax", *beside, "--no-shrink", *OPTIONS, cwd=kernels)
    assert done.returncode == 0, done.stderr
    (case,) = saved(kernels)
    assert case["rows"][0].split()[1] == "ff800000"
    assert case["operands"]["behind"][0].split()[1] == "40e00000"
    run = softcheck("corpus", "run", "mine.py:softmax", *OPTIONS, cwd=kernels)
    assert run.returncode == 1
    plain = softcheck("report", "torch", "--case", case["id"], *OPTIONS, cwd=kernels)
    assert plain.returncode == 3
    assert "the call takes none of bias, keep, mask" in plain.stdout


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("taget=1 2", "did you mean 'target'"),
        ("target", "write NAME=VALUE"),
        ("target=1", "expected integers of shape (2,)"),
        ("target=1 9", "the target of row 1 is 9; expected a column from 0 to 3"),
        ("grad=3f800000", "row 0 holds 1 elements, expected 4"),
        ("scale=much", "expected a number"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, beside, said):
    done = softcheck("corpus", "add", "--dtype", "float32", "--bits", ROWS, "--beside", beside, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "corpora").exists()


def test_a_line_says_itself_what_it_names(tmp_path):
    done = softcheck("corpus", "add", "--line", "{}", "--beside", "target=1", cwd=tmp_path)
    assert done.returncode == 2
    assert "--beside goes with --bits or --file" in done.stderr
