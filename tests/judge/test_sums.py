"""Row sums against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oracles.formats import FLOAT16, FLOAT32, FORMATS, decode, encode
from softcheck.operations.elements import sum_deviation
from softcheck.operations.ulp import LARGEST


def exact_deviation(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(v)) for v in row), Fraction(-1))


@settings(deadline=None, max_examples=200)
@given(arrays(np.float64, (2, 17), elements=st.floats(-2, 2) | st.sampled_from([1.0, 2.0**-60, -(2.0**-1074), 0.1])))
def test_deviation_is_exact_up_to_the_last_rounding(values: np.ndarray) -> None:
    for found, row in zip(sum_deviation(values), values, strict=True):
        exact = exact_deviation(row)
        assert abs(Fraction(float(found)) - exact) <= abs(exact) * Fraction(2) ** -51 + Fraction(2) ** -90


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("columns", [1, 3, 1000, 40_000])
def test_rows_of_every_format(name: str, columns: int) -> None:
    fmt = FORMATS[name]
    raw = np.exp(np.random.default_rng(columns).uniform(-30, 0, (2, columns)))
    values = decode(encode(raw / raw.sum(axis=1, keepdims=True), fmt), fmt)
    for found, row in zip(sum_deviation(values), values, strict=True):
        exact = exact_deviation(row)
        assert abs(Fraction(float(found)) - exact) <= abs(exact) * Fraction(2) ** -51 + Fraction(2) ** -80


def test_a_large_cancelling_pair_hides_nothing() -> None:
    # A plain float64 sum gives -1 or 0 here, depending on the order.
    assert sum_deviation(np.array([[2.0**60, 1.0, -(2.0**60), 2.0**-40]]))[0] == 2.0**-40


def test_a_million_float32_results() -> None:
    value = float(np.float32(1 / 1_000_003))
    exact = Fraction(value) * 1_000_003 - 1
    assert sum_deviation(np.full((1, 1_000_003), value))[0] == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("row", [[1e308, 1e308, 1e308], [LARGEST, LARGEST]])
def test_sums_beyond_float64_are_clipped(row: list[float]) -> None:
    assert sum_deviation(np.array([row]))[0] == LARGEST


def test_no_rows_and_no_columns() -> None:
    assert sum_deviation(np.empty((0, 5))).shape == (0,)
    assert list(sum_deviation(np.empty((2, 0)))) == [-1.0, -1.0]


def test_widest_formats_do_not_disturb_their_neighbours() -> None:
    values = np.array([[FLOAT32.max, 0.0], [0.5, 0.5], [FLOAT16.least_subnormal, 1.0]])
    assert list(sum_deviation(values)[1:]) == [0.0, 2.0**-24]
