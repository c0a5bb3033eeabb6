"""The scan in two float32 compiled for GPUs with slow float64 and with fast: its sums must stay as written."""

import re

import device_child
import double_float_child
import pytest

SHARED = 99 * 1024
"""Bytes that a program may have on sm_86 and sm_89; the table of bins is 8208 of them."""


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton-cache")))
        with device_child.pool(interpret=False) as pool:
            yield pool


def fusable(ptx):
    """Operations that a compiler may fuse or that flush: without .rn, or with .ftz, but for the share's reciprocal."""
    operations = re.findall(r"\b(?:add|sub|mul|mad|fma|div|rcp|ex2)\.[\w.]*f32\b", ptx)
    return {
        o
        for o in operations
        if not re.fullmatch(r"(?:add|sub|mul|fma)\.rn\.f32|div\.full\.f32|rcp\.approx\.ftz\.f32", o)
    }


@pytest.mark.parametrize(("dtype", "target"), [("float16", "cuda:89"), ("float32", "cuda:86")])
def test_sums_and_products_are_never_fused_or_flushed(child, dtype, target):
    ptx, shared, _ = child.submit(double_float_child.compiled, dtype, 1024, target).result()
    assert "fma.rn.f32" in ptx
    assert fusable(ptx) == set()
    assert shared + 8208 <= SHARED


def test_the_check_sees_a_kernel_that_may_be_fused(child):
    ptx, _, _ = child.submit(double_float_child.compiled, "float16", 40, "cuda:89", fused=True).result()
    assert {"add.f32", "mul.f32"} <= fusable(ptx)


def test_wide_rows_fit_the_shared_memory(child):
    # float32 rows take the most.
    _, shared, _ = child.submit(double_float_child.compiled, "float32", 16384, "cuda:86").result()
    assert shared + 8208 <= SHARED


def test_both_rates_are_measured_in_four_multiply_adds_a_round(child):
    single, double = child.submit(double_float_child.rates_compiled, "cuda:89").result()
    assert (set(re.findall(r"f\d\d", single)), set(re.findall(r"f\d\d", double))) == ({"f32"}, {"f64"})
    assert single.count("fma") == double.count("fma")
