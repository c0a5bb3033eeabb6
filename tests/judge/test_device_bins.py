"""The number of counts that a scan's programs store suffices for every error within its bound."""

import numpy as np
import pytest

from oracles import float64
from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, decode, encode
from softcheck.judge.device import bins
from softcheck.judge.device.constants import Constants
from softcheck.judge.histogram import histogram
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds
from softcheck.operations.ulp import scaled


@pytest.mark.parametrize("counts", [64, 1024, bins.TABLE])
def test_errors_below_the_limit_lie_in_the_first_counts(counts):
    below = np.nextafter(bins.largest_error(counts), 0)
    assert max(histogram(np.array([below]))) < counts
    assert max(histogram(np.array([2 * bins.largest_error(counts)]))) >= counts


def test_as_many_counts_as_an_error_needs():
    assert bins.counts_for(2.5) == 1024
    assert bins.counts_for(31.9) == 1024
    assert bins.counts_for(32.0) == bins.TABLE
    assert bins.counts_for(1e9) == bins.TABLE


@pytest.mark.parametrize("columns", [2, 1000, 16384])
@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32])
def test_no_bound_reaches_the_largest_of_the_constants(fmt, columns):
    rng = np.random.default_rng(columns)
    spread = np.linspace(0, min(700.0, fmt.max), 40)[:, None]
    values = decode(encode(-spread * rng.random((40, columns)) - rng.random((40, 1)), fmt), fmt)
    values[:, 0] = 0
    exact = float64.softmax(values, fully_masked="nan")
    found = bounds.bounds(values, scaled(exact, fmt), exact.values, bounds.model(STANDARD, fmt)).elements.max()
    most = Constants(fmt, bounds.model(STANDARD, fmt), columns).largest_bound
    assert found < most
    assert found > most / 100
