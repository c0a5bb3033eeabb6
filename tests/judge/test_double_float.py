"""Arithmetic and exponential in sums of two float32 against exact fractions and mpmath, at the errors that they state."""

from fractions import Fraction

import device_child
import double_float_child
import mpmath
import numpy as np
import pytest

from softcheck.judge.device.double_float import CLAMP, UNIT_ROUNDOFF, error

U2 = UNIT_ROUNDOFF**2


@pytest.fixture(scope="module")
def child():
    with device_child.pool(interpret=True) as pool:
        yield pool


def parts(values):
    """Rounded values and rests, float32."""
    high = values.astype(np.float32)
    return high, (values - high).astype(np.float32)


def padded(values):
    return np.concatenate([values, np.zeros((1 << (len(values) - 1).bit_length()) - len(values))])


def distances():
    """Dense, next to multiples of ln 2 and half of it, next to 0, and differences of 16-bit numbers."""
    rng = np.random.default_rng(0)
    halves = np.arange(0, 346) * np.log(2) / 2
    close = [halves * (1 + s * 2.0**-e) for s in (-1, 0, 1) for e in (20, 24, 28, 47)]
    random = [
        rng.uniform(0, 0.35, 4000),
        rng.uniform(0, 2, 2000),
        rng.uniform(0, CLAMP, 3000),
        2.0 ** rng.uniform(-140, 0, 200),
    ]
    sixteen = np.float16(rng.uniform(-60, 60, (2, 500))).astype(np.float64)
    found = np.concatenate([*close, *random, np.abs(sixteen[0] - sixteen[1]), [0.0, CLAMP, 2.0**-149]])
    return padded(found[found <= CLAMP])


@pytest.mark.parametrize("precise", [True, False])
def test_exponential_is_within_the_stated_error(child, precise):
    high, low = parts(distances())
    e, e_low = child.submit(double_float_child.exponentials, high, low, precise).result()
    with mpmath.workprec(120):
        scale = mpmath.mpf(2) ** 64
        errors = [
            float(
                abs((mpmath.mpf(float(a)) + float(b)) / (scale * mpmath.exp(-(mpmath.mpf(float(d)) + float(rest)))) - 1)
            )
            for a, b, d, rest in zip(e, e_low, high, low, strict=True)
        ]
    errors, underflow = np.array(errors), 2.0**-150 / e.astype(np.float64)
    assert np.all(errors <= error(precise=precise) + underflow)
    # A bound that nothing comes near would hide a wrong coefficient.
    assert errors[high < 2].max() > error(precise=precise) / 5
    assert np.all(np.abs(e_low) <= 2.5 * UNIT_ROUNDOFF * e)
    at_zero = high == 0
    assert np.all((e[at_zero] == 2.0**64) & (e_low[at_zero] == 0))


def exactly(*values):
    return sum((Fraction(float(v)) for v in values), Fraction(0))


def operands(seed):
    rng = np.random.default_rng(seed)
    return parts(rng.choice([-1.0, 1.0], 512) * rng.uniform(1, 2, 512) * 2.0 ** rng.integers(-40, 41, 512))


def test_sum_and_rest_are_exact(child):
    a, b = operands(1)[0], operands(2)[0]
    b[:64] = -a[:64] * np.float32(1 - 2.0**-20)
    found, rest = child.submit(double_float_child.binary, "two_sum", a, a * 0, b, b * 0).result()
    for i in range(len(a)):
        assert exactly(found[i], rest[i]) == exactly(a[i], b[i])
        assert found[i] == np.float32(a[i] + b[i])


def test_product_is_within_its_error(child):
    a, a_low = operands(3)
    b, b_low = operands(4)
    a_low = (a_low * 5).clip(-2.5 * UNIT_ROUNDOFF * np.abs(a), 2.5 * UNIT_ROUNDOFF * np.abs(a)).astype(np.float32)
    found, rest = child.submit(double_float_child.binary, "product", a, a_low, b, b_low).result()
    errors = [
        float(abs(exactly(found[i], rest[i]) / (exactly(a[i], a_low[i]) * exactly(b[i], b_low[i])) - 1))
        for i in range(512)
    ]
    assert U2 < max(errors) <= 11 * U2
    alone, remainder = child.submit(double_float_child.binary, "product", a, a * 0, b, b * 0).result()
    assert all(exactly(alone[i], remainder[i]) == exactly(a[i]) * exactly(b[i]) for i in range(512))


def test_inverse_is_within_its_error(child):
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.uniform(1, 16384, 448), 2.0 ** np.arange(-20, 21), 1 + 2.0 ** -np.arange(1.0, 24)])
    high, low = parts(values)
    found, rest = child.submit(double_float_child.binary, "inverse", high, low, high, low).result()
    errors = [float(abs(exactly(found[i], rest[i]) * exactly(high[i], low[i]) - 1)) for i in range(512)]
    assert U2 / 2 < max(errors) <= 7 * U2
    # A power of two has an exact inverse: the maxima of a row show their binade by it.
    assert np.all(rest[448:489] == 0)


@pytest.mark.parametrize(("columns", "at_once"), [(1, False), (32, True), (1024, False)])
def test_row_sums_lose_nothing_that_counts(child, columns, at_once):
    rng = np.random.default_rng(columns)
    high, low = parts(2.0**64 * np.exp(-rng.uniform(0, 60, columns)))
    weights = rng.uniform(0, 1, columns).astype(np.float32)
    *found, weighted = child.submit(double_float_child.sums, high, low, weights, at_once).result()
    exact = exactly(*high, *low)
    assert abs(exactly(*found) / exact - 1) <= 2.0**-60
    assert weighted == pytest.approx(weights.sum(dtype=np.float64), rel=1e-5)


def test_the_kernel_that_measures_rates_counts_what_it_says(child):
    single, double = child.submit(double_float_child.rates_run).result()
    # The recurrence comes to a cycle, so that no number grows out of its range and roundings don't add up.
    assert len(single) == len(double) == 1024
    assert np.isfinite(single).all()
    assert np.allclose(single, double, rtol=1e-5)
