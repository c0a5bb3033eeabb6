"""The suite's own set-up: GPU tests skip aloud without a GPU, and nothing else pays for torch."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import sys
import pytest

@pytest.mark.gpu
def test_on_the_gpu():
    raise AssertionError("ran without a device")

def test_elsewhere():
    assert "torch" not in sys.modules
"""


def run(folder, *options):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:softcheck",
            "-p",
            "no:xdist",
            "-rs",
            *options,
        ],
        cwd=folder,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_gpu_tests_skip_with_the_reason_and_others_import_no_torch(tmp_path):
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu: needs a device\n")
    (tmp_path / "test_both.py").write_text(TESTS)
    skipped = run(tmp_path, "-k", "gpu")
    assert "1 skipped" in skipped.stdout, skipped.stdout
    assert "needs a CUDA device; none found" in skipped.stdout
    deselected = run(tmp_path, "-m", "not gpu")
    assert "1 passed, 1 deselected" in deselected.stdout, deselected.stdout
