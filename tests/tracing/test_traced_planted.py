"""Traces of the planted kernels: no step of a right one is accused, and that of a wrong one which errs is found."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "planted"))
import planted

CONTROLS = [control for control in planted.all_controls() if "float32" in control.dtypes]

MOST = {"parts_merged_about_their_maximum": 2.5}
"""ULPs that a step may add in controls whose steps are coarser than most."""

_MATRIX, _COPY = "several queries or rows", "changes its input"
UNFOLLOWED = {
    "biased_logits_in_base_two": _COPY,
    "causal_with_a_mask_of_lanes": _MATRIX,
    "mean_by_atomic_adds": _MATRIX,
    "one_gradient_times_the_columns": "launches no Triton kernel",
    "product_in_place_on_a_copy": "launches no Triton kernel",
}
UNFOLLOWED_FOLDERS = {"attention": _MATRIX, "softmax_backward": _COPY, "log_softmax_backward": _COPY}
"""Words for controls that no trace follows: they read a changed copy of the input, operands in its place, or answer with a matrix."""

BORN = {
    "load_without_other": "block_sum",
    "padding_is_zero": "block_sum",
    "padding_counted_in_sum": "block_sum",
    "load_mask_one_too_far": "block_sum",
    "zero_padding_in_maximum": "block_maximum",
    "rescale_forgotten": "running_sum",
    "reciprocal_in_bfloat16": "round",
    "last_column_dropped": "store",
    "log2e_of_five_digits": "store",
    "output_viewed_not_transposed": "store",
}
"""The phase of the step in which each wrong kernel errs."""


def logits(columns):
    return np.random.default_rng(1).normal(size=(3, columns)) * 2.5 - 4


def test_no_step_of_a_right_kernel_is_accused(tracing):
    launching = 0
    for control in CONTROLS:
        rows, _ = tracing.rows(f"file:{control.spec}", logits(1100), rows=(1,))
        if isinstance(rows, str):
            of_folder = UNFOLLOWED_FOLDERS.get(control.path.parents[1].name, "launches no Triton kernel")
            assert UNFOLLOWED.get(control.name, of_folder) in rows, control.name
            continue
        (row,) = rows
        launching += 1
        assert max(step.own for step in row.steps) < MOST.get(control.name, 1.5), control.name
        assert "".join(step.note for step in row.steps) == "", control.name
        assert row.steps[-1].phase == "store", control.name
    assert launching > 25


@pytest.mark.parametrize("name", BORN)
def test_the_step_in_which_a_wrong_kernel_errs_is_found(tracing, name):
    (bug,) = [bug for bug in planted.all_bugs() if bug.name == name]
    columns = 3000 if name == "rescale_forgotten" else 37
    (row,), _ = tracing.rows(f"file:{bug.spec}", logits(columns), rows=(1,))
    born = row.steps[row.born]
    assert born.phase == BORN[name]
    assert born.own > 200
    assert born.note or name == "reciprocal_in_bfloat16"


@pytest.mark.parametrize(("name", "operation"), [("sum_by_running_sum", "scan"), ("atomic_maximum", "bitcast")])
def test_operations_that_no_rule_follows_are_named(tracing, name, operation):
    (control,) = [control for control in CONTROLS if control.name == name]
    _, notes = tracing.rows(f"file:{control.spec}", logits(37), rows=(1,))
    assert notes == (f"not followed, so that results count as exact from there on: {operation}",)
