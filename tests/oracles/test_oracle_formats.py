from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, bits_hex, decode, encode, quantum_exponent


def rounded_exactly(value, fmt):
    """Nearest value of the format, ties to even, in rational arithmetic; None for overflow."""
    exact = abs(Fraction(value))
    exponent = fmt.min_exponent
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - fmt.precision + 1)
    result = round(exact / quantum) * quantum
    return None if result > Fraction(fmt.max) else float(result) * (-1 if value < 0 else 1)


def test_decode_of_every_16_bit_pattern():
    patterns = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(decode(patterns, FLOAT16), patterns.view(np.float16).astype(np.float64))
    with np.errstate(invalid="ignore"):
        expected = patterns.view(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_array_equal(decode(patterns, BFLOAT16), expected)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_encode_inverts_decode(fmt):
    words = np.random.default_rng(1).integers(0, 1 << 63, 5000, dtype=np.uint64) * 2 + 1
    patterns = (words >> np.uint64(64 - fmt.width)).astype(fmt.storage)
    values = decode(patterns, fmt)
    expected = np.where(np.isnan(values), fmt.exponent_mask | 1 << (fmt.precision - 2), patterns)
    np.testing.assert_array_equal(encode(values, fmt), expected)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_encode_rounds_once_to_nearest_even(fmt, data):
    # Midpoints of neighbours, and float64 neighbours of midpoints, besides anything at all.
    pattern = data.draw(st.integers(0, fmt.exponent_mask - 1))
    ends = decode(np.array([pattern, min(pattern + 1, fmt.exponent_mask - 1)]), fmt)
    middle = ends[0] / 2 + ends[1] / 2
    value = data.draw(
        st.sampled_from([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), -middle])
        | st.floats(allow_nan=False, allow_infinity=False)
    )
    got = float(decode(encode(np.array([value]), fmt), fmt)[0])
    expected = rounded_exactly(float(value), fmt)
    assert got == (np.copysign(np.inf, value) if expected is None else expected)
    assert np.signbit(got) == np.signbit(value)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_edges(fmt):
    half = fmt.least_subnormal / 2
    values = np.array([0.0, -0.0, fmt.max, -fmt.max, np.inf, -np.inf, fmt.least_subnormal, fmt.least_normal, half])
    expected = [0.0, -0.0, fmt.max, -fmt.max, np.inf, -np.inf, fmt.least_subnormal, fmt.least_normal, 0.0]
    np.testing.assert_array_equal(decode(encode(values, fmt), fmt), expected)
    if fmt is not FLOAT64:
        overflow = fmt.max + fmt.unit_roundoff * 2.0**fmt.max_exponent
        assert decode(encode(np.array([overflow, np.nextafter(overflow, 0)]), fmt), fmt).tolist() == [np.inf, fmt.max]


def test_quantum_exponent_is_the_definition_of_an_ulp():
    assert quantum_exponent(np.array([1.0, np.nextafter(1, 0), 2.0**-14, 2.0**-20, 0.0]), FLOAT16).tolist() == [
        -10,
        -11,
        -24,
        -24,
        -24,
    ]


def test_bits_hex():
    assert [bits_hex(1, f) for f in FORMATS.values()] == ["0001", "0001", "00000001", "0000000000000001"]


@pytest.mark.parametrize("fmt", list(FORMATS.values()), ids=lambda fmt: fmt.name)
def test_as_many_decimal_digits_tell_all_values_apart_and_one_less_does_not(fmt):
    bits = np.random.default_rng(0).integers(0, int(encode(np.array([fmt.max]), fmt)[0]), 20000).astype(fmt.storage)
    values = decode(bits, fmt)

    def read_back(digits):
        return encode(np.array([float(f"{value:.{digits}g}") for value in values]), fmt)

    assert np.array_equal(read_back(fmt.decimal_digits), bits)
    assert not np.array_equal(read_back(fmt.decimal_digits - 1), bits)
