"""Sums that are rescaled are seen in every common form of online softmax, and in no kernel that rescales nothing."""

from pathlib import Path

import pytest
from ptx_helpers import compile_all

from softcheck.operations.arithmetic import Arithmetic
from softcheck.toolchain.ptx import contradictions, read_arithmetic, shown_arithmetic

FILE = Path(__file__).with_name("rescaling_kernels.py")
CONTROLS = Path(__file__).parents[1] / "planted" / "controls"
COLUMNS = 700

RESCALING = (
    "online_scalar",
    "online_base_two",
    "online_libdevice",
    "online_chosen",
    "online_when_larger",
    "online_divided",
    "online_lanes",
    "online_lanes_reduced",
    "once_by_reduce",
    "split",
    "split_in_a_loop",
)
PLAIN = ("one_pass", "three_passes", "three_passes_reciprocal", "logarithm", "saved_inverse")
ONLY_FLOAT32 = ("online_libdevice", "split", "split_in_a_loop", "saved_inverse")
PLANTED = {
    "online_per_lane": True,
    "split_columns": True,
    "four_passes": False,
    "three_kernels_without_atomics": False,
    "two_rows_per_program": False,
    "sums_in_float64": False,
    "log_softmax_then_exp": False,
}
"""Right kernels of tests/planted, and whether they rescale."""
OTHERS = (("float64", "cuda:90"), ("float32", "cuda:80"), ("float16", "cuda:100"))
CASES = [
    (kind, dtype, target)
    for at, kind in enumerate((*RESCALING, *PLAIN))
    for dtype, target in (("float32", "cuda:90"), OTHERS[at % 3])
    if dtype != "float64" or kind not in ONLY_FLOAT32
]
"""Every kernel for one dtype and generation of GPUs, and for one of the other three."""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    requests = [(f"{FILE}:{kind}", dtype, COLUMNS, target) for kind, dtype, target in CASES]
    requests += [(f"{CONTROLS / kind}.py:softmax", "float32", 5000, "cuda:90") for kind in PLANTED]
    compiled = compile_all(requests, tmp_path_factory.mktemp("rescaling"))
    return {request: read_arithmetic(kernels) for request, (_, kernels) in compiled.items()}


@pytest.mark.parametrize(("kind", "dtype", "target"), CASES)
def test_rescaled_sums_are_seen_and_no_others(observed, kind, dtype, target):
    found = observed[f"{FILE}:{kind}", dtype, COLUMNS, target]
    assert found.rescales is (kind in RESCALING)
    assert found.sums == ("float64" if dtype == "float64" else "float32",)
    assert shown_arithmetic(found, dtype).rescales is found.rescales


@pytest.mark.parametrize("kind", PLANTED)
def test_rescaled_sums_of_planted_kernels(observed, kind):
    assert observed[f"{CONTROLS / kind}.py:softmax", "float32", 5000, "cuda:90"].rescales is PLANTED[kind]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_declaration_that_says_otherwise_is_contradicted(observed, dtype):
    for kind in ("online_scalar", "three_passes"):
        found = observed[f"{FILE}:{kind}", dtype, COLUMNS, "cuda:90"]
        rescales = kind == "online_scalar"
        assert contradictions(Arithmetic(rescales=rescales), found, dtype) == []
        assert len(contradictions(Arithmetic(rescales=not rescales), found, dtype)) == 1
