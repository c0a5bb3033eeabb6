"""The logarithms of softmax that the oracles give, against mpmath at 400 bits."""

import mpmath
import numpy as np
import pytest

from oracles import ball, double_double, float64

ORACLES = {"float64": float64, "double_double": double_double, "ball": ball}
RNG = np.random.default_rng(11)
ROWS = [
    *(RNG.normal(0, spread, columns) for columns in (1, 2, 3, 17, 300) for spread in (0.1, 3, 50, 1000, 1e5)),
    np.array([0.0, -800.0, -900.0]),
    np.array([0.0, -1e-9, -700.0]),
    np.array([0.0, -36.7]),
    np.array([0.0, -30.0, -np.inf]),
    np.full(5, 1e8),
    np.array([-np.inf, 3.0, -np.inf]),
]


def exact(row):
    with mpmath.workprec(400):
        finite = [mpmath.mpf(float(x)) for x in row if np.isfinite(x)]
        finite.remove(top := max(finite))
        logarithm = mpmath.log1p(mpmath.fsum(mpmath.exp(x - top) for x in finite))
        return [mpmath.mpf(float(x)) - top - logarithm if np.isfinite(x) else -mpmath.inf for x in row]


@pytest.mark.parametrize("name", ORACLES)
def test_errors_are_within_what_is_claimed(name):
    for row in ROWS:
        found = ORACLES[name].log_softmax(row[None])
        with mpmath.workprec(400):
            for column, expected in enumerate(exact(row)):
                high, low = float(found.high[0, column]), float(found.low[0, column])
                if not mpmath.isfinite(expected):
                    assert (high, found.relative_error[0, column]) == (-np.inf, 0.0)
                    continue
                error = abs(mpmath.mpf(high) + mpmath.mpf(low) - expected)
                claimed = mpmath.mpf(float(found.relative_error[0, column])) * abs(expected) + found.absolute_error
                assert error <= claimed, (row[:3], column)
                # Double words and Arb know 64 bits more than float64, also of a logarithm next to 0.
                if name != "float64" and abs(expected) > 1e-250:
                    assert claimed < abs(expected) * mpmath.mpf(2) ** -85


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("fully_masked", "expected"), [("nan", np.nan), ("zero", -np.inf)])
def test_special_rows_follow_the_convention(name, fully_masked, expected):
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0]])
    found = ORACLES[name].log_softmax(rows, fully_masked=fully_masked).high
    np.testing.assert_array_equal(found, [[np.nan] * 2, [np.nan] * 2, [expected] * 2, [-np.inf, 0.0]])


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0)])
def test_empty_inputs_give_empty_outputs(name, shape):
    assert ORACLES[name].log_softmax(np.zeros(shape)).high.shape == shape


@pytest.mark.parametrize("name", ["double_double", "ball"])
def test_values_beyond_float64_are_minus_infinity(name):
    found = ORACLES[name].log_softmax(np.array([[1e308, -1e308]]))
    np.testing.assert_array_equal(found.high, [[0.0, -np.inf]])


@pytest.mark.parametrize("distance", [1e3, 1e5, 3e38, 1e300])
def test_logarithms_that_underflow_have_a_finite_error(distance):
    found = ball.log_softmax(np.array([[0.0, -distance]]))
    assert abs(found.high[0, 0]) < 1e-300
    assert found.relative_error.max() < 1e-25


@pytest.mark.parametrize(
    ("row", "column", "expected"),
    [
        ([0.0, 0.0], 0, "-0.69314718055994530942"),
        ([0.0, -30.0], 0, "-9.3576229688397367794e-14"),
        ([3.0, -np.inf], 0, "0"),
        ([3.0, -np.inf], 1, "-inf"),
        ([np.nan, 1.0], 1, "nan"),
        ([0.0, -1e300], 0, "<1e-300"),
    ],
)
def test_decimals_are_those_of_the_exact_value(row, column, expected):
    assert ball.log_softmax(np.array([row])).decimal(0, column, 20) == expected
