"""The public strategies: what they may draw, what they do draw, and what they shrink to."""

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from oracles.formats import FORMATS, decode
from softcheck.cases.case import check_contents
from softcheck.cases.corpus import decode_case, encode_case
from softcheck.strategies import (
    bit_patterns,
    cases,
    gradients,
    masks,
    matrices,
    rows,
    targets,
    with_gradients,
    with_masks,
    with_targets,
)

FEW = settings(deadline=None, max_examples=40)
SEARCH = settings(
    deadline=None, max_examples=3000, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink]
)


@pytest.mark.parametrize("dtype", FORMATS)
@given(data=st.data())
@FEW
def test_patterns_keep_to_what_is_allowed(dtype, data):
    fmt = FORMATS[dtype]
    nan, infinity, masked = (data.draw(st.booleans()) for _ in range(3))
    pattern = data.draw(bit_patterns(dtype, allow_nan=nan, allow_infinity=infinity, allow_negative_infinity=masked))
    (value,) = decode(np.array([pattern], fmt.storage), fmt)
    assert nan or not np.isnan(value)
    assert infinity or value != np.inf
    assert masked or value != -np.inf


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("masked", [True, False])
@given(data=st.data())
@FEW
def test_matrices_keep_to_bounds_and_hold_no_special_values_unasked(dtype, masked, data):
    fmt = FORMATS[dtype]
    bits = data.draw(
        matrices(dtype, min_rows=2, max_rows=3, min_columns=4, max_columns=600, allow_negative_infinity=masked)
    )
    assert bits.dtype == fmt.storage
    assert 2 <= bits.shape[0] <= 3
    assert 4 <= bits.shape[1] <= 600
    values = decode(bits, fmt)
    assert not np.isnan(values).any()
    assert not np.isposinf(values).any()
    assert masked or not np.isneginf(values).any()


@pytest.mark.parametrize("dtype", FORMATS)
@given(data=st.data())
@FEW
def test_cases_are_complete_and_survive_a_corpus(dtype, data):
    case = data.draw(cases(dtype, min_rows=0, min_columns=0, allow_layouts=True))
    check_contents(case)
    assert case.id == f"generated/{case.digest}/{dtype}"
    assert decode_case(encode_case(case)) == case


@given(row=rows("bfloat16", max_columns=9))
@FEW
def test_rows_have_one_dimension(row):
    assert row.dtype == np.uint16
    assert row.shape == (len(row),)
    assert 1 <= len(row) <= 9


def found(dtype, condition, options=SEARCH):
    fmt = FORMATS[dtype]
    with np.errstate(invalid="ignore"):
        return decode(find(matrices(dtype), lambda bits: condition(decode(bits, fmt)), settings=options), fmt)


def test_shrinks_to_the_smallest_matrix():
    assert found("float32", lambda v: True).tolist() == [[0.0]]
    assert found("float16", lambda v: np.isneginf(v).all()).tolist() == [[-np.inf]]
    wide = found("bfloat16", lambda v: v.shape[1] > 512)
    assert wide.shape == (1, 513)
    assert not wide.any()


@pytest.mark.parametrize(
    "condition",
    [
        lambda v: v.shape[1] in {127, 128, 129},
        lambda v: np.isneginf(v).all(axis=1).any(),
        lambda v: np.isneginf(v[:, -1]).any() and np.isfinite(v[:, 0]).any(),
        lambda v: v.shape[1] > 2 and (v == v[0, 0]).all() and v[0, 0] != 0,
        lambda v: ((v.max(axis=1, keepdims=True) - v > 87.3) & (v.max(axis=1, keepdims=True) - v < 104.1)).any(),
        lambda v: (v == FORMATS["float32"].max).any(),
        lambda v: ((v != 0) & (np.abs(v) < 2.0**-126)).any(),
        lambda v: v.shape[1] > 100 and (np.argmax(v, axis=1) == v.shape[1] - 1).any(),
    ],
)
def test_structures_that_break_kernels_are_drawn(condition):
    assert found("float32", condition, settings(SEARCH, phases=[Phase.generate])).size


def test_special_values_are_drawn_where_allowed():
    case = find(cases("float16"), lambda c: np.isnan(decode(c.bits(), c.format)).any(), settings=SEARCH)
    assert case.shape[0] * case.shape[1] <= 16
    layout = find(cases("float16", allow_layouts=True), lambda c: c.layout.column_stride > 1, settings=SEARCH)
    check_contents(layout)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bit_patterns("float61"), "dtype='float61' is unknown; expected one of float16"),
        (lambda: matrices("float16", min_rows=3, max_rows=2), "min_rows=3, max_rows=2"),
        (lambda: rows("float16", min_columns=-1), "min_columns=-1"),
        (lambda: cases("float16", min_columns=9, max_columns=8), "min_columns=9, max_columns=8"),
    ],
)
def test_wrong_arguments_are_shown(make, said):
    with pytest.raises(InvalidArgument, match=said):
        make()


@given(data=st.data())
@FEW
def test_targets_are_columns_or_ignored(data):
    columns = data.draw(st.integers(1, 300))
    found = data.draw(targets(5, columns, ignore_index=-100))
    assert (found.dtype, found.shape) == (np.int64, (5,))
    assert (((found >= 0) & (found < columns)) | (found == -100)).all()
    assert (data.draw(targets(5, columns)) >= 0).all()


@pytest.mark.parametrize("wanted", [0, 63, 64, 199])
def test_targets_reach_seams_and_ends_and_shrink_to_the_first_column(wanted):
    found = find(targets(3, 200), lambda each: wanted in each, settings=SEARCH)
    assert sorted(found) == [0, 0, wanted]
    assert -100 in find(targets(3, 200, ignore_index=-100), lambda each: (each < 0).any(), settings=SEARCH)


def test_masks_hide_all_nothing_and_one_row():
    assert not find(masks(4, 9), lambda _: True, settings=SEARCH).any()
    assert find(masks(4, 9), lambda each: each.all(), settings=SEARCH).shape == (4, 9)
    assert find(masks(4, 9), lambda each: each[1].all() and not each[0].any(), settings=SEARCH).dtype == np.bool_


@pytest.mark.parametrize("dtype", FORMATS)
def test_gradients_are_finite_and_of_every_kind(dtype):
    fmt = FORMATS[dtype]
    ones = find(gradients(dtype, 2, 5), lambda each: (decode(each, fmt) == 1).all(), settings=SEARCH)
    assert ones.dtype == fmt.storage
    varied = find(gradients(dtype, 2, 5), lambda each: len(np.unique(each)) == 10, settings=SEARCH)
    assert np.isfinite(decode(varied, fmt)).all()
    assert find(gradients(dtype, 2, 5), lambda each: (each[0] != each[1]).any(), settings=SEARCH).shape == (2, 5)


@given(data=st.data())
@FEW
def test_what_stands_beside_a_matrix_has_its_shape(data):
    few = matrices("float16", max_columns=70)
    bits, target = data.draw(with_targets(few))
    assert target.shape == bits.shape[:1]
    bits, mask = data.draw(with_masks(few))
    assert mask.shape == bits.shape
    bits, grad = data.draw(with_gradients(few, "float16"))
    assert (grad.shape, grad.dtype) == (bits.shape, bits.dtype)


@given(data=st.data())
@FEW
def test_cases_may_name_operands(data):
    names = data.draw(st.sets(st.sampled_from(["target", "grad", "behind"]), min_size=1))
    case = data.draw(cases("float32", max_columns=600, operand_names=names, ignore_index=-100))
    check_contents(case)
    assert set(case.operands.names) == names
    assert decode_case(encode_case(case)) == case


def test_unknown_operands_are_refused():
    with pytest.raises(InvalidArgument, match="'targets'; expected names among target, grad, behind"):
        cases("float16", operand_names=["targets"])
    with pytest.raises(InvalidArgument, match="columns=0; expected at least 1"):
        targets(2, 0)
    with pytest.raises(InvalidArgument, match="dtype='fp16' is unknown"):
        gradients("fp16", 2, 2)
