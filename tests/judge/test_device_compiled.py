"""The device judge's kernels compiled for an NVIDIA GPU, read from PTX: no device is needed."""

import subprocess
import sys

import device_child
import pytest

from softcheck.judge.device import bins
from softcheck.judge.device.scan import MAX_COLUMNS

RESERVED = 1024
"""Bytes of a program's shared memory that CUDA keeps for itself from compute capability 8.0 on."""


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton-cache")))
        with device_child.pool(interpret=False) as pool:
            yield pool


@pytest.mark.parametrize(("target", "closely"), [("cuda:86", False), ("cuda:90", True)])
def test_kernels_follow_each_other_closely_where_the_gpu_can(child, target, closely):
    compiled = child.submit(device_child.compiled, "float16", 1024, target).result()
    ptx = {name: text for name, (text, _) in compiled.items()}
    assert ("griddepcontrol.launch_dependents" in ptx["_scan_kernel"]) == closely
    for name in ("_scan_kernel", "_finish_kernel"):
        assert ("griddepcontrol.wait" in ptx[name]) == closely


@pytest.mark.parametrize("target", ["cuda:86", "cuda:90"])
def test_rows_loaded_ahead_fit_the_shared_memory(child, target):
    taken, most = child.submit(device_child.shared, "float32", MAX_COLUMNS, target).result()
    assert taken + 4 * bins.WORDS + RESERVED <= most


def test_the_numpy_judge_needs_no_torch():
    code = "import sys, softcheck.judge.judge; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("columns", [2, 1024])
def test_tables_of_any_rows_share_a_kernel(child, columns):
    # Numbers and addresses that Triton would compile kernels of their own for.
    assert child.submit(device_child.table_kernels, "float16", columns).result() == 1
