"""Traces of real kernels: right ones have no step that errs, and each planted fault is laid at its step."""

import mpmath
import numpy as np
import pytest

from oracles.formats import FORMATS, decode, encode

RIGHT = ("right", "right_online", "right_pairs", "right_in_parts", "of_a_float_copy")
BUILT_IN = ("one_block", "online", "multi_row", "persistent", "hybrid_tiled", "tiled_float64_sum", "exp2_prescaled")


def logits(columns, seed=0, rows=1, offset=0.0):
    return np.random.default_rng(seed).normal(size=(rows, columns)) * 3 + offset


def phases(row):
    return [step.phase for step in row.steps]


def of_phase(row, phase):
    return [step for step in row.steps if step.phase == phase]


def softmax(values):
    """Softmax of a row in 60 digits."""
    with mpmath.workdps(60):
        powers = [mpmath.exp(mpmath.mpf(value) - max(values)) for value in values]
        return [power / mpmath.fsum(powers) for power in powers]


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        *((f"builtin:{name}", dtype) for name in BUILT_IN for dtype in ("float16", "float32")),
        # Not exp2_prescaled: its literal log2(e), a float64, is itself an ULP of the output off.
        *((f"builtin:{name}", "float64") for name in BUILT_IN[:-1]),
        *((name, dtype) for name in RIGHT[:2] for dtype in ("float16", "bfloat16")),
    ],
)
def test_each_step_of_a_right_kernel_adds_little_and_ends_at_the_exact_softmax(tracing, variant, dtype):
    values = decode(encode(logits(37), FORMATS[dtype]), FORMATS[dtype])
    row = tracing.row(variant, values, dtype)
    assert max(step.own for step in row.steps) <= 2.0
    stores = of_phase(row, "store")
    exact = softmax(values[0].tolist())
    shown = [lane for step in stores for lane in step.shown if lane.column is not None]
    assert len(shown) >= 8
    for lane in shown:
        assert lane.exact == pytest.approx(float(exact[lane.column]), rel=1e-15)
    assert all(step.own < 0.05 for step in stores)
    assert (stores[0].columns[0], stores[-1].columns[1]) == (0, 36)
    assert row.sum_of_probabilities.exact == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("variant", RIGHT)
def test_maxima_and_sums_are_those_of_the_columns_read_so_far(tracing, variant):
    values = decode(encode(logits(45, seed=3), FORMATS["float32"]), FORMATS["float32"])
    row = tracing.row(variant, values)
    for step in of_phase(row, "block_maximum") + of_phase(row, "running_maximum"):
        if step.lanes == 1:
            first, last = step.columns
            assert step.exact == step.value == values[0, first : last + 1].max()
    total = of_phase(row, "block_sum")[-1] if variant != "right_online" else of_phase(row, "running_sum")[-1]
    assert total.columns == (0, 44)
    assert total.exact == pytest.approx(float(np.exp(values - values.max()).sum()), rel=1e-14)
    assert row.sum_of_exponentials.exact == total.exact
    assert max(step.own for step in row.steps) < 2


@pytest.mark.parametrize("variant", [*RIGHT, "never_rescaled", "builtin:online", "builtin:multi_row"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_recorded_call_computes_the_same_bits(tracing, variant, dtype):
    plain, recorded, again, operations = tracing.outputs(variant, logits(21, rows=3), dtype)
    assert (plain == recorded).all()
    assert (plain == again).all()
    assert operations >= 7


def test_lanes_that_are_loaded_as_zero_err_in_the_sum(tracing):
    row = tracing.row("padded_with_zero", [1.0, 2.0, -3.0, 0.5, 1.5])
    (load,), (total,) = of_phase(row, "load"), of_phase(row, "block_sum")
    assert (load.lanes, load.masked, load.masked_value) == (8, 3, 0.0)
    assert row.steps[row.born] is total
    assert total.own > 1e5
    assert "masked lanes enter" in total.note
    assert total.value == pytest.approx(total.exact + 3 * np.exp(-2.0))
    assert max(step.own for step in row.steps if step is not total) < 1


def test_lanes_that_are_loaded_as_zero_err_in_the_maximum_of_negative_logits(tracing):
    row = tracing.row("padded_with_zero", [-7.0, -8.0, -9.0])
    (maximum,) = of_phase(row, "block_maximum")
    assert (maximum.value, maximum.exact) == (0.0, -7.0)
    assert maximum.own > 1e5
    assert next(i for i, step in enumerate(row.steps) if step.own > 1) == row.steps.index(maximum)


def test_a_sum_that_is_not_rescaled_errs_where_it_is_added_to(tracing):
    row = tracing.row("never_rescaled", np.arange(20.0))
    born = row.steps[row.born]
    assert born.phase == "running_sum"
    assert born.columns == (0, 19)
    assert "not rescaled" in born.note
    assert "4 apart" in born.note, "the maxima of the two blocks are 15 and 19"
    assert born.exact == pytest.approx(float(np.exp(np.arange(20.0) - 19).sum()))
    assert tracing.row("right_online", np.arange(20.0)).steps[0].note == ""


def test_a_rescaled_sum_has_no_note(tracing):
    assert [step.note for step in tracing.row("right_online", np.arange(50.0)).steps if step.note] == []


def test_a_sum_in_float16_errs_where_it_is_rounded_and_added_up(tracing):
    row = tracing.row("summed_in_float16", logits(300, seed=5))
    wrong = [step for step in row.steps if step.own > 100]
    assert {step.phase for step in wrong} == {"round", "block_sum"}
    assert {step.dtype for step in wrong} == {"fp16"}
    assert row.steps[row.born] in wrong
    assert "tl.sum(exponentials.to(SUM)" in row.steps[row.born].source


def test_a_probability_in_another_ones_column_errs_in_the_store(tracing):
    row = tracing.row("stored_reversed", [1.0, 2.0, 3.0])
    assert row.steps[row.born].phase == "store"
    assert max(step.own for step in row.steps[:-1]) < 1


def test_columns_that_are_never_read_err_in_the_store(tracing):
    (row,), notes = tracing.rows("builtin:notebook_vectorized", logits(600))
    assert notes == ("row 0: columns 512 to 599: read by no kernel", "row 0: columns 512 to 599: stored by no kernel")
    assert "do not give this row's answer" in row.steps[-1].note
    assert row.steps[row.born].phase == "store"
    assert of_phase(row, "block_sum")[-1].columns == (0, 511)


def test_an_error_that_the_exponential_magnifies_is_not_its_own(tracing):
    row = tracing.row("right", [0.0, -60.1, -70.3])
    (shift,), (powers,) = of_phase(row, "shift"), of_phase(row, "exponential")
    assert shift.error == 0, "the differences are the logits themselves"
    row = tracing.row("right", [0.3, -60.1, -70.3])
    (shift,), (powers,) = of_phase(row, "shift"), of_phase(row, "exponential")
    assert 0 < shift.own <= 0.5
    assert powers.own <= 0.51
    assert powers.error > 5


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([1.0, 2.0], "ordinary"),
        ([1.0, -np.inf, 2.0], "partly masked"),
        ([-np.inf, -np.inf], "fully masked"),
        ([1.0, np.nan, 2.0], "has NaN"),
        ([1.0, np.inf, 2.0], "has +inf"),
    ],
)
def test_special_rows_are_named_and_err_nowhere(tracing, values, status):
    for variant in ("right", "right_online"):
        row = tracing.row(variant, values)
        assert row.status == status
        assert of_phase(row, "store")[-1].error <= 1


def test_a_kernel_that_takes_a_mask_errs_nowhere(tracing):
    (row,), notes = tracing.rows("masked", [1.0, -np.inf, 3.0])
    assert notes == ()
    assert (row.status, row.maximum.exact) == ("partly masked", 3.0)
    assert max(step.own for step in row.steps) <= 0.5
    assert [lane.exact for lane in of_phase(row, "store")[0].shown][:3] == pytest.approx(
        [0.11920292202, 0, 0.88079707797]
    )


@pytest.mark.parametrize(
    "variant", ["logsumexp_one_block", "logsumexp_online", "cross_entropy_online", "log_softmax_online"]
)
def test_other_operations_are_traced_to_their_own_answers(tracing, variant):
    for dtype in ("float16", "float32"):
        row = tracing.row(f"builtin:{variant}", logits(50), dtype)
        assert max(step.own for step in row.steps) < 1.5
        store = of_phase(row, "store")[-1]
        assert store.own == 0
        assert store.error < 2
        assert (row.sum_of_probabilities.kernel is None) == (variant != "log_softmax_online")


def test_rows_of_one_tile_have_steps_of_their_own(tracing):
    values = logits(5, rows=4)
    rows, _ = tracing.rows("builtin:multi_row", values, rows=(1, 3))
    for row, number in zip(rows, (1, 3), strict=True):
        assert row.row == number
        (load,) = of_phase(row, "load")
        assert [lane.value for lane in load.shown if not lane.masked] == pytest.approx(values[number])
        assert (load.lanes, load.masked) == (8, 3)
    in_programs, _ = tracing.rows("right", values, rows=(0, 2))
    assert [row.steps[0].program for row in in_programs] == [(0, 0, 0), (2, 0, 0)]


def test_a_long_trace_keeps_its_ends_and_says_what_it_left_out(tracing):
    row = tracing.row("never_rescaled", np.arange(1000.0) / 50)
    assert len(row.steps) <= 121
    assert row.steps_left_out > 100
    assert (row.steps[0].columns, row.steps[-1].columns[1]) == ((0, 15), 999)
    assert row.steps[row.born].phase == "running_sum"
    assert all(len(step.shown) <= 16 for step in row.steps)


def test_what_rescaling_is_not_recognised_is_compared_as_it_is_formed(tracing):
    (row,), notes = tracing.rows("right_pairs", [1.0, 2.0, 3.0])
    assert max(step.error for step in row.steps) < 3
    assert any("not recognised" in note for note in notes)


def test_a_reduction_by_a_function_that_branches_is_named(tracing):
    (row,), notes = tracing.rows("maximum_by_branches", [1.0, 2.0, 3.0])
    assert notes == ("not followed, so that results count as exact from there on: reduce",)
    assert max(step.own for step in row.steps) < 1
    assert row.steps[-1].error < 2


def test_what_launches_no_kernel_or_reads_a_changed_copy_is_told(tracing):
    reason, _ = tracing.rows("without_kernel", [1.0, 2.0])
    assert "launches no Triton kernel" in reason
    reason, _ = tracing.rows("of_a_reversed_copy", [1.0, 2.0])
    assert "no kernel was seen to read row 0" in reason


def test_a_nan_is_laid_to_the_step_that_makes_it_and_not_to_the_store(tracing):
    row = tracing.row("right_online", [-np.inf] * 16 + [1.0, 2.0, 3.0])
    born = row.steps[row.born]
    assert born.makes_nan, "-inf - -inf, of the first block's logits and their maximum"
    assert born.phase != "store"
    assert np.isnan(born.value)
    assert "NaN is made here" in born.note
    assert not any(step.makes_nan for step in row.steps[: row.born])
    assert row.steps[-1].phase == "store"


@pytest.mark.parametrize(
    ("variant", "values"), [("right_online", [1.0] * 16 + [-np.inf] * 3), ("right", [1.0, np.inf])]
)
def test_a_nan_is_laid_to_no_step_where_none_is_wrong(tracing, variant, values):
    row = tracing.row(variant, values)
    assert row.born is None or not row.steps[row.born].makes_nan
