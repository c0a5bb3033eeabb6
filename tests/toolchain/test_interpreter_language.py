"""Results of the corrected interpreter against the promises of Triton's documentation and of the PTX ISA."""

import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest
from children import Child

from oracles.formats import BFLOAT16, FLOAT16, decode, encode

NAN, INF = float("nan"), float("inf")


def floats(*values):
    return np.array(values, dtype=np.float32)


def from_bfloat16(bits):
    return decode(bits, BFLOAT16)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Triton's tl.argmax: "if multiple values are tied, the left-most index is returned"
        ((3, 1, 3, 0), (0, 3, None, 3, 0, 3, 0)),
        ((-INF,) * 4, (0, 0, None, -INF, 0, -INF, -INF)),
        ((0, 0, 5, 5), (2, 0, None, 5, 2, 5, 0)),
    ],
)
def test_extremes_of_numbers_have_the_first_place(operating, values, expected):
    found = operating("extremes", floats(*values))
    for got, wanted in zip(found, expected, strict=True):
        assert wanted is None or got == wanted
    # A tie that is broken fast may go to any of the largest.
    assert values[int(found[2])] == max(values)


def test_places_of_nan_alone_are_places(operating):
    found = operating("extremes", floats(NAN, NAN, NAN, NAN))
    assert set(found[[0, 1, 2, 4]]) <= {0, 1, 2, 3}
    assert np.isnan(found[[3, 5, 6]]).all()


def test_places_of_one_nan_are_those_of_a_comparison_that_is_false(operating):
    """A NaN compares false, so that one beside numbers is left out by tl.max and may or may not be by tl.argmax."""
    found = operating("extremes", floats(1, NAN, 4, 2))
    assert set(found[[0, 1, 2, 4]]) <= {0, 1, 2, 3}
    assert np.isnan(found[3]) or found[3] == 4
    assert (found[5], found[6]) == (4, 1)


def test_one_nan_is_a_place_of_its_own(operating):
    found = operating("extremes", floats(NAN))
    assert list(found[[0, 1, 2, 4]]) == [0, 0, 0, 0]
    assert np.isnan(found[[3, 5, 6]]).all()


def test_maximum_leaves_nan_out_unless_it_is_to_propagate(operating):
    """PTX ISA, max: "if one of the inputs is NaN, the result is the other; with .NaN the result is NaN"."""
    found = operating("pairs", floats([NAN, 1, NAN, 9], [2, NAN, NAN, -9]).reshape(2, 4))
    assert np.array_equal(found[0], floats(2, 1, NAN, 9), equal_nan=True)
    assert np.array_equal(found[1], floats(NAN, NAN, NAN, 9), equal_nan=True)
    assert np.array_equal(found[2], floats(2, 1, NAN, -9), equal_nan=True)
    assert found[3][1] == 1
    assert found[3][3] == 1


def test_bfloat16_is_computed_as_numbers_and_rounded_once(operating):
    generator = np.random.default_rng(1)
    values = (generator.standard_normal((2, 64)) * 2.0 ** generator.integers(-20, 20, (2, 64))).astype(np.float32)
    bits = encode(values.astype(np.float64), BFLOAT16)
    a, b = decode(bits, BFLOAT16)
    found = operating("arithmetic_in_bfloat16", values)
    expected = (a + b, a * b, np.maximum(a, b), 0 - a, a * b + a, np.maximum(a, b))
    for got, exact in zip(found, expected, strict=True):
        assert np.array_equal(got, encode(exact, BFLOAT16))


def test_float16_is_computed_as_numbers_and_rounded_once(operating):
    a, b = np.random.default_rng(2).standard_normal((2, 64)).astype(np.float16).astype(np.float64)
    found = operating("arithmetic", np.stack([a, b]).astype(np.float16))
    expected = (a + b, a * b, np.maximum(a, b), 0 - a, a * b + a, np.maximum(a, b))
    for got, exact in zip(found, expected, strict=True):
        assert np.array_equal(got, exact.astype(np.float16))


def test_fused_operations_round_once(operating):
    """PTX ISA, fma.rn: "fused multiply-add with no loss of precision in the intermediate product and addition"."""
    generator = np.random.default_rng(3)
    a = (1 + generator.random(256) * 2.0**-11).astype(np.float32)
    b = (-1 + generator.random(256) * 2.0**-12).astype(np.float32)
    found = operating("arithmetic", np.stack([a, b]))[4]
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(x)) for x, y in zip(a, b, strict=True)]
    nearest = [np.float32(float(value)) for value in exact]
    for got, value, near in zip(found, exact, nearest, strict=True):
        gap = abs(Fraction(float(got)) - value)
        for other in (np.nextafter(near, np.float32(-9)), near, np.nextafter(near, np.float32(9))):
            assert gap <= abs(Fraction(float(other)) - value)


def test_sums_products_and_integers_in_bfloat16_are_numbers(operating):
    values = floats(1.5, -3.25, 0.5, 1, 1, 1, 1, 2, *[0.0] * 8)
    found = from_bfloat16(operating("bfloat16_sums", values))
    assert (found[0], found[1], found[2], found[-1]) == (4.75, 4.75, 1, 4.75)
    assert np.array_equal(found[3:-1], decode(encode(np.arange(16) * 257.0, BFLOAT16), BFLOAT16))


def test_floats_become_integers_as_ptx_says(operating):
    """PTX ISA, cvt: clamped to the range; NaN is 0, or only the top bit where a type is .f64, .s64 or .u64."""
    values = floats(NAN, INF, -INF, 3e9, -3e9, -1.9, 2.9, 70000.0)
    found = operating("to_integers", values)
    top, bottom = 2**31 - 1, -(2**31)
    assert list(found[0]) == [0, top, bottom, top, bottom, -1, 2, 70000]
    assert list(found[1]) == [0, 2**32 - 1, 0, 3 * 10**9, 0, 0, 2, 70000]
    assert list(found[2]) == [-(2**63), 2**63 - 1, -(2**63), 3 * 10**9, -3 * 10**9, -1, 2, 70000]
    assert list(found[3]) == [bottom, top, bottom, top, bottom, -1, 2, 70000]
    assert list(found[4]) == [0, 2**15 - 1, -(2**15), 2**15 - 1, -(2**15), -1, 2, 2**15 - 1]
    assert list(found[5]) == [0, top, bottom, top, bottom, -1, 2, top]


def near_ties():
    """Float32 numbers of all sizes, among them ties between neighbours of narrower formats and their neighbours."""
    generator = np.random.default_rng(4)
    bits = generator.integers(0, 2**32, 2**12, dtype=np.uint32)
    low = np.array([0, 0x8000, 0x7FFF, 0x8001, 0x1000, 0x0FFF, 0x80000, 0x100000], dtype=np.uint32)
    values = (np.concatenate([bits, (bits & 0xFFF00000) | generator.choice(low, bits.size)])).view(np.float32)
    scaled = np.concatenate([values, generator.standard_normal(2**12).astype(np.float32) * 2.0**-8, values[: 2**12]])
    return np.where(np.isnan(scaled), floats(NAN), scaled).astype(np.float32)


@pytest.mark.parametrize(("function", "fmt"), [("to_float16", FLOAT16), ("to_bfloat16", BFLOAT16)])
def test_narrowing_rounds_to_nearest_even(operating, function, fmt):
    values = near_ties()
    expected = decode(encode(values.astype(np.float64), fmt), fmt)
    assert np.array_equal(operating(function, values), expected, equal_nan=True)


def test_float64_is_narrowed_in_one_rounding(operating):
    # Halfway between bfloat16 neighbours once it is rounded to float32.
    values = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 3e38, 1e-45, -0.0, NAN, INF, 2.0**-134])
    expected = decode(encode(values, BFLOAT16), BFLOAT16)
    assert np.array_equal(operating("to_bfloat16", values), expected, equal_nan=True)


@pytest.mark.parametrize(
    ("function", "fmt"), [("to_float16_towards_zero", FLOAT16), ("to_bfloat16_towards_zero", BFLOAT16)]
)
def test_narrowing_towards_zero_never_grows(operating, function, fmt):
    values = near_ties()
    found = operating(function, values)
    assert np.array_equal(np.isnan(found), np.isnan(values))
    finite = np.isfinite(values)
    assert (np.abs(found[finite]) <= np.abs(values[finite])).all()
    bits = encode(found[finite], fmt)
    beyond = decode((bits + 1).astype(bits.dtype), fmt)
    assert ((np.abs(beyond) > np.abs(values[finite])) | ~np.isfinite(beyond)).all()
    assert np.array_equal(found[np.isinf(values)], values[np.isinf(values)])


@pytest.mark.parametrize(
    ("function", "narrow"), [("to_e4m3", ml_dtypes.float8_e4m3fn), ("to_e5m2", ml_dtypes.float8_e5m2)]
)
def test_8_bit_floats_are_rounded_to_nearest_and_end_at_their_largest(operating, function, narrow):
    """PTX ISA, cvt to .e4m3x2 and .e5m2x2 is .rn.satfinite: "clamped to the maximum normal"; NaN stays NaN."""
    numbers = np.arange(256, dtype=np.uint8).view(narrow).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    halfway = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate([numbers, halfway, np.nextafter(halfway, INF), [INF, -INF, 1e9, NAN]])
    values = np.resize(values, 1024).astype(np.float32)
    found = operating(function, values)
    clamped = np.clip(values, numbers[0], numbers[-1]).astype(np.float64)
    distance = np.abs(numbers[None, :] - clamped[:, None])
    nan = np.isnan(values)
    assert np.array_equal(np.isnan(found), nan)
    assert np.array_equal(np.abs(found - clamped)[~nan], distance.min(axis=1)[~nan])
    is_tie = (np.sort(distance, axis=1)[:, 0] == np.sort(distance, axis=1)[:, 1]) & ~nan
    assert is_tie.sum() > 200
    assert (found[is_tie].astype(narrow).view(np.uint8) % 2 == 0).all()


def test_integers_wrap_and_shifts_beyond_their_width_leave_nothing(operating):
    """PTX ISA, shl and shr: "shift amounts greater than the register width N are clamped to N"; add and mul.lo wrap."""
    a = np.array([2**31 - 1, -(2**31), -7, 7, -1, 5, -8, 9], dtype=np.int32)
    b = np.array([1, 2, 2, -2, 32, 40, 33, 1], dtype=np.int32)
    found = operating("integers", np.stack([a, b]))
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    assert np.array_equal(found[0], (wide_a + wide_b).astype(np.int32))
    assert np.array_equal(found[1], (wide_a * wide_b).astype(np.int32))
    # Triton's documentation, semantics: "// and % round towards 0, as in C, and not as in Python".
    quotients = [math.trunc(Fraction(int(x), int(y))) for x, y in zip(a, b, strict=True)]
    assert list(found[2]) == quotients
    assert list(found[3]) == [int(x) - q * int(y) for x, y, q in zip(a, b, quotients, strict=True)]
    assert list(found[4][4:7]) == [0, 0, 0]
    assert list(found[5][4:7]) == [-1, 0, -1]
    assert np.array_equal(found[6], ~a)


def test_division_by_zero_gives_some_integer(operating):
    """PTX ISA, div: "division by zero yields an unspecified, machine-specific value"; it does not trap."""
    a = np.array([1, -1, 0, -(2**31)], dtype=np.int32)
    b = np.array([0, 0, 0, -1], dtype=np.int32)
    assert operating("integers", np.stack([a, b])).shape == (7, 4)


def test_functions_are_rounded_once_on_any_machine(operating):
    generator = np.random.default_rng(5)
    values = (generator.standard_normal(512) * 20).astype(np.float32)
    found = operating("functions", values).astype(np.float64)
    mpmath.mp.prec = 120
    exact = [
        [mpmath.exp(v), mpmath.power(2, v), mpmath.log(abs(v)), mpmath.log(abs(v), 2), 1 / mpmath.sqrt(abs(v)), v * v - v,
         mpmath.power(2, v), mpmath.exp(v), mpmath.expm1(v)]
        for v in map(mpmath.mpf, values.tolist())
    ]  # fmt: skip
    for at, column in enumerate(zip(*exact, strict=True)):
        nearest = np.array([float(np.float32(float(value))) for value in column])
        assert np.array_equal(found[at], nearest), at


def test_float64_exponentials_are_close_and_keep_their_special_values(operating):
    values = np.random.default_rng(7).uniform(-700, 700, 2048)
    found = operating("exponentials", values)
    mpmath.mp.prec = 120
    for at, (function, most) in enumerate(((mpmath.exp, 0.8), (lambda v: mpmath.power(2, v), 1), (mpmath.exp, 0.8))):
        exact = [function(mpmath.mpf(v)) for v in values.tolist()]
        ulps = [abs(mpmath.mpf(got) - e) / math.ulp(float(e)) for got, e in zip(found[at].tolist(), exact, strict=True)]
        assert max(ulps) < most
    special = np.array([NAN, INF, -INF, 0.0, -0.0, 1e300, -1e300, -740.0])
    for row in operating("exponentials", special):
        assert np.array_equal(row[:7], [NAN, INF, 0, 1, 1, INF, 0], equal_nan=True)
    assert operating("exponentials", special)[0][7] == float(mpmath.exp(-740))


def _features():
    """Features of this processor beyond NumPy's baseline, in NumPy's names."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__[name]]


@pytest.mark.skipif(not _features(), reason="NumPy has one way of computing on this processor")
def test_results_do_not_depend_on_the_processor(operating):
    child = Child("toolchain/operating_child.py", TRITON_INTERPRET="1", NPY_DISABLE_CPU_FEATURES=" ".join(_features()))
    generator = np.random.default_rng(8)
    inputs = [
        ("functions", (generator.standard_normal(4096) * 20).astype(np.float32)),
        ("exponentials", generator.standard_normal(4096) * 20),
        ("sums", generator.random((1024, 4)).astype(np.float32)),
        ("to_integers", np.resize(floats(NAN, INF, -INF, 3e9, -3e9, 1.5), 64)),
        ("arithmetic", generator.standard_normal((2, 1024)).astype(np.float32)),
    ]
    try:
        for function, array in inputs:
            there = child.ask(f"{Path(__file__).with_name('interpreted_operations.py')}:{function}", array)
            assert operating(function, array).tobytes() == there.tobytes(), function
    finally:
        child.close()


def test_sums_of_tiles_are_trees_along_any_axis(operating):
    """A long column of ones and rounding errors: a serial sum of 2^12 terms is off by far more than 12 roundings."""
    tile = np.full((4096, 2), np.float32(1 / 3))
    exact = 4096 * float(np.float32(1 / 3))
    found = operating("sums", tile)
    assert np.abs(found / exact - 1).max() <= 13 * 2.0**-24
    tile = np.random.default_rng(6).random((4096, 2)).astype(np.float32)
    exact = tile.astype(np.float64).sum(axis=0)
    assert np.abs(operating("sums", tile) / exact - 1).max() <= 13 * 2.0**-24


def test_running_sums_add_all_before(operating):
    values = np.arange(64, dtype=np.float32)
    found = operating("running_sums", values)
    assert np.array_equal(found[0], np.cumsum(values))
    assert np.array_equal(found[1], np.cumsum(values[::-1])[::-1])


def test_functions_of_ones_own_combine_like_the_languages(operating):
    values = floats(3, 9, -INF, 2, 9, 1, 0, -4)
    maximum, total, at, second = operating("folds", values)
    assert (maximum, second) == (9, 9)
    assert total == pytest.approx(float(np.exp(values.astype(np.float64) - 9).sum()), rel=1e-6)
    assert values[int(at)] == 9


def test_python_in_kernels_means_what_the_compiler_makes_of_it(operating):
    found = operating("python", floats(1, 2, 2.5, 4))
    assert list(found[:4]) == [0, 1, 1, 0]
    assert list(found[4:8]) == [1, 0, 0, 0]
    assert found[8] == 3.5
    # Two products in float16 would be 1 each.
    assert found[9] == np.float32(1.0001) * 2
    assert found[10] == 6 * 2**10
    assert found[11] == 2
    assert found[12] == 3 * 2**30


def test_atomic_sums_in_bfloat16_are_numbers(operating):
    found = from_bfloat16(operating("atomics", floats(1, 2, 0.5, -0.25, 3, 3, 0, 1)))
    assert list(found) == [3, 0.25, 6, 1]


def test_dot_products_lose_what_tf32_loses_only_where_that_is_asked_for(operating):
    """Triton's documentation, tl.dot: input_precision defaults to "tf32"."""
    values = floats(*([1 + 2.0**-12] * 16))
    default, tf32, ieee, bf16x6 = operating("tensor_float", values)
    assert (default, tf32) == (16, 16)
    assert (ieee, bf16x6) == (16 + 2.0**-8, 16 + 2.0**-8)
