"""The device judge's own exponential against mpmath, at the error that its module states."""

import device_child
import mpmath
import numpy as np
import pytest

from softcheck.judge.device.exp64 import CLAMP, truncation

UNIT_ROUNDOFF = 2.0**-53


@pytest.fixture(scope="module")
def child():
    with device_child.pool(interpret=True) as pool:
        yield pool


def distances():
    rng = np.random.default_rng(0)
    halves = np.arange(1, 1011) * np.log(2) / 2
    close = np.concatenate([halves * (1 - 2.0**-50), halves, halves * (1 + 2.0**-50)])
    random = np.concatenate([rng.uniform(0, 2, 500), rng.uniform(0, CLAMP, 500), 2.0 ** rng.uniform(-160, 0, 64)])
    found = np.concatenate([close, random, [0.0, CLAMP]])
    return np.concatenate([found, np.zeros(-len(found) % 1024)])


@pytest.mark.parametrize("degree", [7, 10])
def test_relative_error_is_within_the_stated_bound(child, degree):
    d = distances()
    assert np.all(d <= CLAMP)
    found = child.submit(device_child.exponentials, d, degree).result()
    with mpmath.workprec(200):
        exact = [mpmath.exp(-mpmath.mpf(x)) for x in d]
        errors = np.array([float(abs(y / e - 1)) for y, e in zip(found.tolist(), exact, strict=True)])
    # The interpreter rounds twice in a fused operation, which the module allows u d for.
    bound = truncation(degree) + UNIT_ROUNDOFF * (4 + 1.5 * d)
    assert np.all(errors <= bound)
    assert np.all(found[d == 0] == 1.0)
    # A bound that nothing comes near would hide a wrong coefficient.
    small = d < 2
    assert errors[small].max() > truncation(degree) / 2


@pytest.mark.parametrize("degree", [7, 10])
def test_what_lies_beyond_the_clamp_is_small_and_not_zero(child, degree):
    d = np.concatenate([[CLAMP + 2.0**-12, 745.2, 1e4, 2.0**64, 3e38, np.inf], np.full(1018, 1e300)])
    found = child.submit(device_child.exponentials, d, degree).result()
    assert np.all((found > 2.0**-1011) & (found <= np.exp(-CLAMP) * (1 + 1e-9)))


def test_leading_bits_are_the_number_cut_off(child):
    rng = np.random.default_rng(1)
    small = np.concatenate([2.0 ** rng.uniform(-254, 0, 1017), [2.0**-254, 0.5, 1 - 2.0**-53, 2.0**-254 * 1.75, 0.0]])
    found = child.submit(device_child.leading, np.concatenate([small, -small[:2]])).result().astype(np.float64)
    assert np.all(found[-2:] == found[:2])
    exact = small * -(2.0**128)
    assert np.all(np.abs(found[:-2]) <= np.abs(exact))
    assert np.all(np.abs(found[:-2] - exact) <= np.abs(exact) * 2.0**-23)
    assert found[len(small) - 1] == 0


def test_leading_bits_of_what_is_not_below_1_are_not_finite(child):
    values = np.array([1.0, 1.5, 2 - 2.0**-52, -1.25, np.inf, -np.inf, np.nan, -np.nan])
    assert not np.isfinite(child.submit(device_child.leading, values).result()).any()
