"""Intervals against scipy's and against what they promise; words; the rule to stop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from softcheck.speed.statistics import (
    LEAST_ROUNDS,
    Interval,
    geometric_mean,
    median_interval,
    precise,
    ratio_interval,
    settled,
    word,
)

POSITIVE = st.floats(1e-6, 1e6)


def lognormal(seed, size=40):
    return np.random.default_rng(seed).lognormal(0, 0.1, size)


@pytest.mark.parametrize("seed", range(5))
def test_interval_is_scipys_percentile_bootstrap(seed):
    samples = lognormal(seed)
    ours = median_interval(samples)
    theirs = stats.bootstrap(
        (samples,), np.median, n_resamples=4000, method="percentile", rng=np.random.default_rng(seed)
    ).confidence_interval
    assert ours.mid == np.median(samples)
    assert ours.low == pytest.approx(theirs.low, rel=0.02)
    assert ours.high == pytest.approx(theirs.high, rel=0.02)


def test_interval_holds_the_true_median_about_95_times_in_100():
    held = sum(i.low <= 1.0 <= i.high for i in (median_interval(lognormal(seed)) for seed in range(300)))
    assert 0.90 <= held / 300 <= 0.99


def test_ratios_are_formed_within_rounds():
    """Rounds that are slow as a whole, as after a change of clock, widen seconds but not ratios."""
    rounds = np.where(np.arange(40) % 2, 1.0, 1.5)
    noise = lognormal(1) ** 0.01
    ratio = ratio_interval(2 * rounds * noise, rounds)
    assert ratio.mid == pytest.approx(2, rel=0.01)
    assert ratio.width < 0.01
    assert median_interval(2 * rounds * noise).width > 0.1


def test_rounds_must_match():
    with pytest.raises(ValueError, match=r"3 rounds over 2 rounds"):
        ratio_interval([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (Interval(1.02, 1.03, 1.04), "FAST"),
        (Interval(0.95, 0.96, 0.97), "SLOW"),
        (Interval(0.995, 1.0, 1.005), "SAME"),
        (Interval(0.995, 1.01, 1.03), "AMBIGUOUS"),
        (Interval(0.5, 1.0, 2.0), "AMBIGUOUS"),
        (None, "AMBIGUOUS"),
    ],
)
def test_word_says_what_the_whole_interval_says(interval, expected):
    assert word(interval, LEAST_ROUNDS) == expected
    assert word(interval, LEAST_ROUNDS - 1) == "AMBIGUOUS"


@given(low=POSITIVE, wide=st.floats(1, 2), wider=st.floats(1, 2))
def test_word_turns_around_with_the_comparison(low, wide, wider):
    interval = Interval(low, low * wide, low * wide * wider)
    opposite = {"FAST": "SLOW", "SLOW": "FAST", "SAME": "SAME", "AMBIGUOUS": "AMBIGUOUS"}
    # At the margin itself rounding may decide; everywhere else the words are mirror images.
    bounds = (interval.low, interval.high)
    if not any(abs(b / edge - 1) < 1e-9 for b in bounds for edge in (1.01, 1 / 1.01)):
        assert word(Interval(1 / interval.high, 1 / interval.mid, 1 / interval.low), 50) == opposite[word(interval, 50)]


def test_geometric_mean_is_scipys():
    intervals = [Interval(m * 0.9, m, m * 1.1) for m in (0.5, 1.0, 3.0)]
    mean = geometric_mean(intervals)
    assert mean.mid == pytest.approx(stats.gmean([0.5, 1.0, 3.0]))
    assert mean.low == pytest.approx(0.9 * mean.mid)
    assert geometric_mean([]) is None


def test_measuring_stops_only_when_every_ratio_is_known():
    known, unknown = Interval(0.998, 1.0, 1.002), Interval(0.99, 1.0, 1.01)
    assert precise([known, known])
    assert not precise([known, unknown])


def test_warm_up_goes_on_while_times_fall():
    assert not settled([1.0] * 9)
    assert settled([5.0, 3.0, *[1.0] * 10])
    assert not settled([2.0] * 5 + [1.0] * 5)


def test_what_could_not_be_timed_has_no_median_and_warns_of_nothing():
    found = median_interval([])
    assert np.isnan([found.low, found.mid, found.high]).all()
