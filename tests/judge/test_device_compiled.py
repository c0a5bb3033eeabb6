"""What the device judge's kernels compile to for an NVIDIA GPU, read from PTX: no device is needed."""

import re
import subprocess
import sys

import device_child
import pytest

from softcheck.judge.device import bins
from softcheck.judge.device.scan import MAX_COLUMNS

WIDTHS = (2, 1024, 4096)
RESERVED = 1024
"""Bytes of a program's shared memory that CUDA keeps for itself from compute capability 8.0 on."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton-cache")))
        with device_child.pool(interpret=False) as pool:
            yield {
                (dtype, columns): pool.submit(device_child.compiled, dtype, columns).result()
                for dtype in ("float16", "float32")
                for columns in WIDTHS
            }


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_element_is_counted_once_in_one_table(kernels, dtype, columns):
    counting = {
        name: kernel
        for name, kernel in kernels[dtype, columns].items()
        if name not in {"_begin_kernel", "_finish_kernel"}
    }
    for ptx, _ in counting.values():
        # A second declaration would be a second table, of which only one is added up.
        assert len(re.findall(r"\.shared .*softcheck_bins", ptx)) == 1
    ptx, warps = kernels[dtype, columns]["_pairs_kernel" if columns == 2 else "_scan_kernel"]
    # Threads never hold the same element twice: rows fill the program.
    tile = {2: 512 * 2}.get(columns, columns)
    # float16 rows are counted a turn later, and the last one of all behind the loop.
    places = 2 if dtype == "float16" and columns > 2 else 1
    assert ptx.count("red.shared.add.u32") == places * tile // (32 * warps)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_warps_meet_once_for_each_figure_of_a_row(kernels, dtype):
    """The sums, the first row's peak and the next one's, and how far the sum is from 1, first and on a closer look."""
    ptx, warps = kernels[dtype, 4096]["_scan_kernel"]
    assert warps == 4
    assert len(re.findall(r"^\s*bar\.sync 0;", ptx, re.MULTILINE)) == 5
    alone, warps = kernels[dtype, 1024]["_scan_kernel"]
    assert warps == 1
    assert "ld.shared.v4.b32 {v" not in alone


@pytest.mark.parametrize(("dtype", "most"), [("float16", 16), ("float32", 18)])
@pytest.mark.parametrize("columns", [1024, 4096])
def test_float64_operations_per_element(kernels, dtype, most, columns):
    ptx, warps = kernels[dtype, columns]["_scan_kernel"]
    arithmetic = len(re.findall(r"\b(?:add|sub|mul|fma|div|setp\.\w+|max|min)(?:\.rn)?\.f64", ptx))
    per_element = arithmetic / (columns // (32 * warps))
    assert 12 < per_element <= most
    # One reciprocal per row, by Newton's rule, and no division at all.
    assert "div.rn.f64" not in ptx
    assert len(re.findall(r"rcp\.approx\.ftz\.f64", ptx)) == 1


@pytest.mark.parametrize(("target", "closely"), [("cuda:86", False), ("cuda:90", True)])
def test_kernels_follow_each_other_closely_where_the_gpu_can(tmp_path, monkeypatch, target, closely):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with device_child.pool(interpret=False) as pool:
        kernels = pool.submit(device_child.compiled, "float16", 1024, target).result()
    ptx = {name: text for name, (text, _) in kernels.items()}
    for name in ("_begin_kernel", "_scan_kernel"):
        assert ("griddepcontrol.launch_dependents" in ptx[name]) == closely
    for name in ("_scan_kernel", "_finish_kernel"):
        assert ("griddepcontrol.wait" in ptx[name]) == closely


@pytest.mark.parametrize("target", ["cuda:86", "cuda:90"])
def test_rows_loaded_ahead_fit_the_shared_memory(tmp_path, monkeypatch, target):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with device_child.pool(interpret=False) as pool:
        taken, most = pool.submit(device_child.shared, "float32", MAX_COLUMNS, target).result()
    assert taken + 4 * bins.WORDS + RESERVED <= most


def test_the_numpy_judge_needs_no_torch():
    code = "import sys, softcheck.judge.judge; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("columns", [2, 1024])
def test_tables_of_any_rows_share_a_kernel(columns):
    # Numbers and addresses that Triton would compile kernels of their own for.
    with device_child.pool(interpret=False) as pool:
        assert pool.submit(device_child.table_kernels, "float16", columns).result() == 1
