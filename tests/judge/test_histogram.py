"""Bins, merging and percentiles of ULP errors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcheck.judge.histogram import LEAST, histogram, merge, percentile, upper_edge
from softcheck.operations.ulp import LARGEST

errors = st.sampled_from([0.0, 5e-324, LEAST, 0.5, 1.0, LARGEST]) | st.floats(0, LARGEST)


@settings(deadline=None, max_examples=300)
@given(errors)
def test_every_error_lies_below_its_bins_upper_edge_and_close_to_it(error: float) -> None:
    ((b, count),) = histogram(np.array([error])).items()
    assert count == 1
    assert error < upper_edge(b) or error == LARGEST == upper_edge(b)
    assert (b == 0) == (error < LEAST)
    if b:
        assert upper_edge(b - 1) <= error
        assert upper_edge(b) <= error * (1 + 1 / 64)


def test_edges_rise() -> None:
    edges = [upper_edge(b) for b in range(70_000)]
    assert all(a <= b for a, b in itertools.pairwise(edges))
    assert edges[0] == LEAST
    assert edges[-1] == LARGEST


def test_merging_equals_one_histogram() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.exponential(size=(3, 50)), rng.exponential(size=400) * 1e6
    whole = histogram(np.concatenate([first.ravel(), second]))
    assert merge([histogram(first), histogram(second)]) == whole
    assert sum(whole.values()) == 550


@settings(deadline=None, max_examples=100)
@given(st.lists(errors, min_size=1, max_size=60), st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0]))
def test_percentile_is_the_exact_one_from_above(values: list[float], fraction: float) -> None:
    exact = sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]
    found = percentile(histogram(np.array(values)), fraction)
    assert found is not None
    assert exact <= found <= max(exact * (1 + 1 / 64), LEAST)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert histogram(np.empty((0, 3))) == {}
    assert percentile({}, 0.5) is None


def test_percentile_of_mostly_exact_results() -> None:
    counts = histogram(np.array([0.0] * 998 + [0.4, 0.4]))
    assert percentile(counts, 0.998) == LEAST
    assert percentile(counts, 0.999) == pytest.approx(0.4, rel=0.016)
