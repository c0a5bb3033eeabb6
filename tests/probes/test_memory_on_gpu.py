"""The memory and layout probes on a GPU: kernels whose faults only a device shows, and offsets beyond 2^31 elements."""

from pathlib import Path

import pytest
import torch

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.registry import load

pytestmark = pytest.mark.gpu
PLANTED = Path(__file__).parents[1] / "kernels" / "memory_faults.py"
STRIDES_KEPT = Path(__file__).parents[1] / "planted" / "controls" / "strides_of_the_input_kept.py"


def findings(probe, spec, dtype="float16"):
    """Label and kind of each finding, and the reasons of trials skipped."""
    loaded = load(spec)
    setting = Setting(declaration=loaded.declaration, dtype=dtype, backend="cuda")
    subject, made = Subject(loaded, setting, torch.device("cuda")), registry.load(probe)
    concluded = made.conclude([(trial, made.run(subject, trial)) for trial in made.trials(setting)])
    return {(shown.label, str(shown.violation.kind)) for shown in concluded.findings}, concluded.skipped


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_offsets_that_wrap_are_found_without_a_fault(dtype):
    found, skipped = findings("addresses", "one_block", dtype)
    if skipped:
        pytest.skip(skipped[0])
    # A finding of a kind names the other trials that show it.
    assert found == {("row-stride-2^30", "out_of_bounds_read"), ("dense-2^31", "out_of_bounds_write")}


@pytest.mark.parametrize(("columns", "expected"), [("cols.to(tl.int64)", set()), ("cols", {"dense-transposed-2^31"})])
def test_dense_transposed_elements_beyond_2_31_are_found(tmp_path, columns, expected):
    """Of a kernel whose output keeps the input's strides, with its offsets in 64 bits and the output's in 32."""
    source = STRIDES_KEPT.read_text()
    assert source.count("cols.to(tl.int64) * out_col") == 1
    path = tmp_path / "kernel.py"
    path.write_text(source.replace("cols.to(tl.int64) * out_col", f"{columns} * out_col"))
    found, skipped = findings("addresses", f"{path}:softmax")
    if skipped:
        pytest.skip(skipped[0])
    assert {label for label, _ in found} == expected


@pytest.mark.parametrize("variant", ["torch", "online", "hybrid"])
def test_offsets_of_64_bits_are_left_alone(variant):
    assert findings("addresses", variant)[0] == set()


def test_an_output_that_torch_allocates_in_c_lies_between_canaries():
    assert findings("guard_bands", "torch") == (set(), ())


@pytest.mark.parametrize(
    ("name", "probe", "kind"),
    [
        ("reads_one_beyond", "guard_bands", "out_of_bounds_read"),
        ("stores_one_beyond", "guard_bands", "out_of_bounds_write"),
        ("shares_a_maximum", "neighbours", "row_dependence"),
        ("forgets_to_clear", "unwritten", "unwritten_output"),
    ],
)
def test_planted_faults_are_found(name, probe, kind):
    assert kind in {found for _, found in findings(probe, f"{PLANTED}:{name}")[0]}


@pytest.mark.parametrize("probe", ["guard_bands", "unwritten", "neighbours", "input_untouched", "layouts"])
def test_the_control_is_left_alone(probe):
    assert findings(probe, f"{PLANTED}:right")[0] == set()
