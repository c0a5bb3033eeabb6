import mpmath
import numpy as np
import pytest

from oracles import _double_word as dw
from oracles import double_double, float64

U = 2.0**-53
MP = mpmath.mp.clone()
MP.prec = 400


def exact(x):
    return [MP.mpf(h) + MP.mpf(w) for h, w in zip(x.high.tolist(), x.low.tolist(), strict=True)]


def double_words(seed, count, signs=(-1.0, 1.0)):
    rng = np.random.default_rng(seed)
    high = rng.choice(signs, count) * 2.0 ** rng.uniform(-30, 30, count)
    return dw.fast_two_sum(high, high * U * rng.uniform(-1, 1, count))


def test_constants_are_those_of_mpmath():
    parts = [MP.mpf(p) for p in double_double._LN2_PARTS]
    assert abs(sum(parts) - MP.ln2 / 64) < MP.mpf(2) ** -131
    for part in double_double._LN2_PARTS[:2]:
        assert part * 2.0**78 % 1 == 0
        for steps in (1, 2**17 - 1, 110_791):
            assert MP.mpf(steps * part) == MP.mpf(steps) * MP.mpf(part)
    for j, power in enumerate(exact(double_double._POWERS)):
        assert abs(power / MP.mpf(2) ** (MP.mpf(j) / 64) - 1) < U**2
    for k, coefficient in enumerate(double_double._COEFFICIENTS):
        value = MP.mpf(float(coefficient.high)) + MP.mpf(float(coefficient.low))
        assert abs(value * MP.factorial(k) - 1) < U**2


def test_exact_transformations_are_exact():
    a, b = double_words(1, 300).high, double_words(2, 300).high
    assert exact(dw.two_sum(a, b)) == [MP.mpf(x) + MP.mpf(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert exact(dw.two_product(a, b)) == [MP.mpf(x) * MP.mpf(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_operations_keep_their_bounds(seed):
    x, y = double_words(seed, 400), double_words(seed + 10, 400)
    for got, a, b in zip(exact(dw.add(x, y)), exact(x), exact(y), strict=True):
        assert abs(got - (a + b)) <= 3.1 * U**2 * (abs(a) + abs(b))
    for got, a, b in zip(exact(dw.multiply(x, y)), exact(x), exact(y), strict=True):
        assert abs(got / (a * b) - 1) <= 8.1 * U**2
    for got, a in zip(exact(dw.reciprocal(x)), exact(x), strict=True):
        assert abs(got * a - 1) <= 20 * U**2


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 301])
def test_total_keeps_its_bound(count):
    x = double_words(count, count, signs=(1.0,))
    column = dw.DoubleWord(x.high[:, None], x.low[:, None])
    value = exact(dw.total(column))[0]
    assert abs(value / MP.fsum(exact(x)) - 1) <= 3.1 * U**2 * max(1, (count - 1).bit_length())


def test_exponentials_are_within_thirteen_units():
    x = -np.concatenate((np.random.default_rng(4).uniform(0, 1200, 300), np.geomspace(1e-30, 1, 100), [0.0, 1e-320]))
    value, exponent, near = double_double._exponential(x, np.array(0.0))
    assert near.all()
    for got, k, argument in zip(exact(value), exponent.tolist(), x.tolist(), strict=True):
        assert abs(MP.ldexp(got, k) / MP.exp(MP.mpf(argument)) - 1) <= 13 * U**2


def test_numpys_exp_is_within_the_assumed_error():
    x = -np.concatenate((np.random.default_rng(6).uniform(0, 708, 20_000), np.geomspace(1e-20, 700, 2000)))
    with_double_words, exponent, _ = double_double._exponential(x, np.array(0.0))
    scaled = np.ldexp(np.exp(x), -exponent)
    error = np.abs((scaled - with_double_words.high) - with_double_words.low) / with_double_words.high
    assert error.max() <= 5 * U


@pytest.mark.parametrize("columns", [2, 3, 7, 8, 15, 16, 17, 100, 127, 128, 129, 136, 255, 300, 1000, 4099])
@pytest.mark.parametrize("rows", [1, 5])
def test_numpy_adds_rows_no_deeper_than_the_bound_supposes(columns, rows):
    """Big positive and negative terms meet at one addition, which swallows every 1 in the subtree below it.

    The distinct subtree sizes seen by one term, paired with all others, are the additions it passes through.
    """
    rng = np.random.default_rng(columns)
    for term in {0, columns - 1, *rng.integers(columns, size=4).tolist()}:
        seen = set()
        partners = [j for j in range(columns) if j != term]
        if columns > 300:
            partners = sorted({*rng.choice(partners, 150).tolist(), *range(min(20, term))} - {term})
        for partner in partners:
            probe = np.ones((rows, columns))
            probe[:, term], probe[:, partner] = 2.0**900, -(2.0**900)
            if columns < float64._NARROW:
                probe = np.asfortranarray(probe)
            seen.add(int(probe.sum(axis=1)[-1]))
        assert len(seen) <= float64.summation_depth(columns)


def test_the_float64_bound_is_not_vacuous():
    values = np.random.default_rng(8).normal(size=(4, 1000))
    assert float64.softmax(values).relative_error.max() < 100 * U
    assert double_double.softmax(values).relative_error.max() < 2.0**-99
