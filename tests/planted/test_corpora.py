"""An operation's own corpus finds wrong kernels by itself, and leaves right ones alone."""

from pathlib import Path

import pytest
from planted import FOLDER, read

from softcheck.cases.corpus import load
from softcheck.operations.registry import OPERATIONS
from softcheck.run.plan import left_out
from softcheck.run.session import Session

BACKWARDS = FOLDER.parent / "kernels" / "backwards.py"
WIDEST = 3000

WRONG = {
    "masked_softmax": (
        "bias_of_the_first_row",
        "hidden_first_tile_gives_nan",
        "hidden_logits_made_minus_ten_thousand",
        "mask_applied_behind_the_maximum",
        "mask_left_out_of_full_blocks",
        "mask_read_with_the_strides_of_the_input",
        "maximum_not_scaled",
        "rows_between_taken_for_alike",
        "scale_applied_twice",
        "scale_behind_the_exponential",
    ),
    "log_softmax": (
        "epsilon_in_the_logarithm",
        "first_tile_of_masks_gives_nan",
        "infinity_has_no_difference",
        "logsumexp_subtracted",
        "packed_rows_assumed",
    ),
    "logsumexp": (
        "infinite_logit_has_a_finite_logarithm",
        "lse_of_packed_rows",
        "masked_row_is_plus_infinity",
        "parts_merged_without_a_maximum",
        "shifted_by_the_first_tile",
    ),
    "cross_entropy": (
        "all_rows_ignored_divides_by_zero",
        "epsilon_in_the_loss",
        "ignored_rows_add_their_nan",
        "loss_of_a_masked_target_is_zero",
        "loss_of_transposed_logits",
        "losses_of_kept_rows_moved_up",
        "not_a_number_is_no_loss",
        "target_of_8_bits",
        "target_of_the_last_tile",
        "targets_taken_for_packed",
        "zero_is_ignored_too",
    ),
    "softmax_backward": (
        "without_the_last_column",
        "without_the_mean",
        "for_gradients_of_one",
        "sum_of_the_first_row",
    ),
    "log_softmax_backward": ("of_the_mean", "takes_the_output_for_probabilities"),
}
"""Kernels of each folder of planted ones, and of functions in ``tests/kernels`` for the backwards."""

RIGHT = {
    "masked_softmax": ("biased_logits_in_base_two", "hidden_logits_never_loaded", "temperature_in_float64"),
    "log_softmax": ("log1p_of_the_others",),
    "logsumexp": ("parts_merged_about_their_maximum",),
    "cross_entropy": ("ignored_rows_taken_out", "lse_less_the_target"),
    "softmax_backward": ("in_another_order", "softmax_backward"),
    "log_softmax_backward": ("log_softmax_backward",),
}


@pytest.fixture(scope="module")
def session():
    opened = Session("auto", jobs=1)
    yield opened
    opened.close()


def spec_of(folder, kind, name):
    path = Path(FOLDER / folder / kind / f"{name}.py")
    return read(path).spec if path.is_file() else f"{BACKWARDS}:{name}@operation={folder}"


def findings(session, folder, spec, *, first):
    """Findings on the operation's own corpus, in float32; of the first case that shows any if that is enough."""
    operation = folder if folder in OPERATIONS else "softmax"
    declaration = session.load(spec, ("float32",))
    assert not isinstance(declaration, str), declaration
    cases = [case for case in load([operation]) if case.dtype == "float32" and case.shape[1] <= WIDEST]
    cases = [case for case in cases if left_out(case, declaration) is None]
    assert len(cases) >= 4
    found = []
    for case in cases:
        (result,) = session.run_case(case, [spec])
        found += [f"{case.id}: {each.kind}: {each.message}" for each in result.measurement.violations]
        if found and first:
            break
    return found


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder, names in WRONG.items() for name in names])
def test_the_corpus_alone_finds_a_wrong_kernel(session, folder, name):
    assert findings(session, folder, spec_of(folder, "bugs", name), first=True)


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder, names in RIGHT.items() for name in names])
def test_the_corpus_leaves_a_right_kernel_alone(session, folder, name):
    assert findings(session, folder, spec_of(folder, "controls", name), first=False) == []
