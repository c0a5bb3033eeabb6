"""References: errors that are NaN are refused, and an answer that may be 0 keeps its absolute error as a relative one."""

import numpy as np
import pytest

from oracles.reference import Reference, with_error


def reference(**parts):
    zeros = np.zeros((1, 2))
    given = {"low": zeros, "exponent": zeros.astype(np.int64), "relative_error": zeros, "absolute_error": 0.0}
    return Reference(**({"high": np.ones((1, 2))} | given | parts))


@pytest.mark.parametrize("parts", [{"relative_error": np.array([[0.0, np.nan]])}, {"absolute_error": np.nan}])
def test_an_error_that_is_nan_is_refused(parts):
    with pytest.raises(ArithmeticError, match="fault of softcheck"):
        reference(**parts)


def test_an_infinite_error_is_none_and_no_columns_have_one():
    reference(relative_error=np.array([[0.0, np.inf]]))
    empty = np.zeros((3, 0))
    Reference(empty, empty, empty.astype(np.int64), empty, 0.0)


@pytest.mark.parametrize("off", [0.0, 1e-3, 1.0, 1e300, np.inf])
def test_an_answer_lies_within_its_stated_error(off):
    high = np.array([[0.0, 1.0, -1.0, 1e-3, -1e-3, 0.9, -0.9, 1e300, -1e-300]])
    stated, low, relative = with_error(high, np.zeros_like(high), np.full_like(high, off))
    allowed = relative * np.abs(stated)
    assert np.isfinite(stated).all()
    if off < np.inf:
        for end in (high - off, high + off):
            assert (np.abs(end - (stated + low)) <= allowed * (1 + 2.0**-50)).all()
        assert (relative[np.abs(high) > off] < 1).all()
    else:
        assert (allowed > 1e300).all()


def test_special_answers_have_no_error():
    high = np.array([[np.nan, np.inf, -np.inf]])
    stated, _, relative = with_error(high, np.zeros_like(high), np.array([[np.nan, np.inf, 1.0]]))
    np.testing.assert_array_equal(stated, high)
    assert not relative.any()


def test_decimals_are_rounded_once_from_both_parts():
    third = reference(
        high=np.array([[1 / 3, 0.0]]), low=np.array([[1 / 3 * 2**-54, 0.0]]), relative_error=np.array([[0.0, 1.0]])
    )
    assert [third.decimal(0, column, 20) for column in (0, 1)] == ["0.33333333333333333333", "<1e-300"]
    far = reference(exponent=np.array([[-1500, 3]]))
    assert [far.decimal(0, column, 5) for column in (0, 1)] == ["2.8511e-452", "8"]
