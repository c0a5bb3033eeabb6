"""ULP errors against exact fractions, for all four formats."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_helpers import exact_ulp, exact_ulp_error, reference_value

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format, decode, encode
from oracles.reference import Reference
from softcheck.operations.ulp import LARGEST, error_as_if_flushing, flushed, scaled, scaled_error

ALL = list(FORMATS.values())


def one(high: float, low: float = 0.0, exponent: int = 0, relative: float = 0.0) -> Reference:
    shape = (1, 1)
    return Reference(np.full(shape, high), np.full(shape, low), np.full(shape, exponent), np.full(shape, relative), 0.0)


def error_of(y: float, reference: Reference, fmt: Format) -> float:
    return float(scaled_error(np.array([[y]]), scaled(reference, fmt))[0, 0])


@st.composite
def exact_results(draw: st.DrawFn, fmt: Format) -> Reference:
    """Results on and around powers of two, subnormal boundaries and 1, and anywhere between."""
    least = fmt.min_exponent - fmt.precision - 3
    exponent = draw(st.integers(least, 0) | st.sampled_from([0, -1, fmt.min_exponent, fmt.min_exponent - 1, least + 3]))
    mantissa = draw(
        st.sampled_from([0.5, math.nextafter(0.5, 0), math.nextafter(0.5, 1), math.nextafter(1.0, 0)])
        | st.floats(0.5, 1.0, exclude_max=True)
    )
    # low is at most half of the distance to the nearer neighbour, so that high stays the nearest float64.
    room = min(mantissa - math.nextafter(mantissa, 0), math.nextafter(mantissa, 2) - mantissa) / 2
    low = draw(st.sampled_from([0.0, 1.0, -1.0, 2.0**-40, -(2.0**-40)]) | st.floats(-1, 1)) * room
    split = draw(st.booleans()) or exponent < -900
    if split:
        return one(mantissa, low, exponent)
    return one(math.ldexp(mantissa, exponent), math.ldexp(low, exponent))


@st.composite
def outputs(draw: st.DrawFn, fmt: Format, r: Fraction) -> float:
    """Near r, or any finite bit pattern."""
    if draw(st.booleans()):
        nearest = int(encode(np.array([float(r)]), fmt)[0])
        top = int(encode(np.array([fmt.max]), fmt)[0])
        bits = min(max(nearest + draw(st.integers(-3, 3)), 0), top)
    else:
        bits = draw(st.integers(0, 2**fmt.width - 1))
        if bits & fmt.exponent_mask == fmt.exponent_mask:
            bits ^= 1 << (fmt.precision - 1)
    return float(decode(np.array([bits], dtype=fmt.storage), fmt)[0])


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_equals_the_definition_on_fractions(fmt: Format, data: st.DataObject) -> None:
    reference = data.draw(exact_results(fmt))
    r = reference_value(reference, 0, 0)
    y = data.draw(outputs(fmt, r))
    expected = exact_ulp_error(y, r, fmt)
    found = error_of(y, reference, fmt)
    if expected >= Fraction(LARGEST):
        assert found == LARGEST
    else:
        assert abs(Fraction(found) - expected) <= expected * Fraction(2) ** -50 + Fraction(2) ** -1000


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_whole_matrices_agree_with_single_elements(fmt: Format) -> None:
    rng = np.random.default_rng(1)
    high = np.ldexp(rng.uniform(0.5, 1.0, (7, 9)), rng.integers(max(fmt.min_exponent - 3, -1000), 1, (7, 9)))
    reference = Reference(high, np.zeros_like(high), np.zeros(high.shape, dtype=np.int64), np.zeros_like(high), 0.0)
    output = decode(encode(high * rng.uniform(0.9, 1.1, high.shape), fmt), fmt)
    errors = scaled_error(output, scaled(reference, fmt))
    for i in range(7):
        for j in range(9):
            assert errors[i, j] == error_of(output[i, j], one(high[i, j]), fmt)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_one_and_its_neighbours(fmt: Format) -> None:
    below = 1.0 - 2.0**-fmt.precision
    above = 1.0 + 2.0 ** (1 - fmt.precision)
    assert error_of(1.0, one(1.0), fmt) == 0
    assert error_of(below, one(1.0), fmt) == 0.5
    assert error_of(above, one(1.0), fmt) == 1.0
    # The exact value lies just below 1, where the ULP is half as large.
    just_below = one(1.0, -(2.0**-1000))
    assert error_of(below, just_below, fmt) == pytest.approx(1.0)
    assert error_of(above, just_below, fmt) == pytest.approx(2.0)
    assert error_of(1.0, just_below, fmt) < 1e-200


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_below_the_normal_range_the_least_subnormal_is_the_unit(fmt: Format) -> None:
    least = fmt.least_subnormal
    low_exponent = fmt.min_exponent - fmt.precision + 1
    assert error_of(least, one(1.0, 0.0, low_exponent), fmt) == 0
    assert error_of(0.0, one(1.0, 0.0, low_exponent), fmt) == 1.0
    assert error_of(0.0, one(1.0, 0.0, low_exponent - 1), fmt) == 0.5
    assert error_of(least, one(1.0, 0.0, low_exponent - 500), fmt) == 1.0
    assert error_of(0.0, one(1.0, 0.0, low_exponent - 500), fmt) == pytest.approx(0.0, abs=1e-100)
    assert error_of(least, one(0.0), fmt) == 1.0
    assert error_of(0.0, one(0.0), fmt) == 0


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("y", [math.nan, math.inf, -math.inf])
def test_non_finite_outputs_have_no_ulp_error(fmt: Format, y: float) -> None:
    assert math.isnan(error_of(y, one(0.25), fmt))
    assert math.isnan(error_of(0.25, one(math.nan), fmt))
    assert math.isnan(error_of(y, one(math.nan), fmt))


def test_figures_beyond_float64_are_clipped() -> None:
    assert error_of(1.0, one(1.0, 0.0, -5000), FLOAT64) == LARGEST
    assert error_of(FLOAT64.max, one(1.0, 0.0, -1), FLOAT64) == LARGEST


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_unit_is_the_definitions(fmt: Format, data: st.DataObject) -> None:
    reference = data.draw(exact_results(fmt))
    quantum = int(scaled(reference, fmt).quantum[0, 0])
    assert Fraction(2) ** quantum == exact_ulp(reference_value(reference, 0, 0), fmt)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_flushed_needs_a_result_that_does_not_round_to_zero(fmt: Format) -> None:
    low_exponent = fmt.min_exponent - fmt.precision + 1

    def is_flushed(y: float, reference: Reference) -> bool:
        return bool(flushed(np.array([[y]]), scaled(reference, fmt))[0, 0])

    assert is_flushed(0.0, one(1.0, 0.0, low_exponent))
    assert is_flushed(0.0, one(0.5, 2.0**-60, low_exponent))
    assert not is_flushed(0.0, one(0.5, 0.0, low_exponent))
    assert not is_flushed(0.0, one(0.5, -(2.0**-60), low_exponent))
    assert is_flushed(0.0, one(1.0, -(2.0**-60), fmt.min_exponent))
    assert not is_flushed(0.0, one(1.0, 0.0, fmt.min_exponent))
    assert not is_flushed(fmt.least_subnormal, one(1.0, 0.0, low_exponent))
    assert not is_flushed(0.0, one(0.0))


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_a_flushing_kernel_is_measured_in_its_own_format(fmt: Format) -> None:
    def error(y: float, reference: Reference) -> float:
        exact, output = scaled(reference, fmt), np.array([[y]])
        return float(error_as_if_flushing(scaled_error(output, scaled(reference, fmt)), output, exact)[0, 0])

    assert error(0.0, one(0.75, 0.0, fmt.min_exponent)) == 0.75
    assert error(fmt.least_normal, one(0.75, 0.0, fmt.min_exponent)) == 0.25
    # Other subnormal outputs and normal results keep the ordinary unit.
    assert error(fmt.least_normal / 2, one(0.75, 0.0, fmt.min_exponent)) == 2.0 ** (fmt.precision - 1) / 4
    assert error(0.0, one(1.0, 0.0, fmt.min_exponent)) == 2.0 ** (fmt.precision - 1)
    # What is too small for float64, or exactly 0, is one ULP from the least normal number too.
    for vanishing in (one(0.0), one(0.0, 0.0, 0, 1.0), one(0.75, 0.0, -3000)):
        assert error(fmt.least_normal, vanishing) == pytest.approx(1.0)
        assert error(0.0, vanishing) == pytest.approx(0.0)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
def test_rounding_correctly_errs_by_at_most_half(fmt: Format) -> None:
    rng = np.random.default_rng(7)
    high = np.ldexp(rng.uniform(0.5, 1.0, (50, 200)), rng.integers(max(fmt.min_exponent - 30, -1000), 1, (50, 200)))
    reference = Reference(high, np.zeros_like(high), np.zeros(high.shape, dtype=np.int64), np.zeros_like(high), 0.0)
    worst = scaled_error(decode(encode(high, fmt), fmt), scaled(reference, fmt)).max()
    assert 0.49 < worst <= 0.5
