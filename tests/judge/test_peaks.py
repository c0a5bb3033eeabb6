"""Curves of errors along a row hold the largest of exactly the elements of each bin, found here one by one."""

import math
from bisect import bisect_right

import numpy as np
import pytest
from judge_helpers import exact_ulp_error, reference_value, rounded

from oracles.formats import FLOAT16, FLOAT32, FORMATS, Bits, Format, decode, encode
from softcheck.judge.histogram import column_below, distance_below
from softcheck.judge.judge import STANDARD, judge, reference
from softcheck.judge.measurement import merge
from softcheck.operations import bounds, ulp
from softcheck.operations.arithmetic import model
from softcheck.operations.softmax import LOG_SOFTMAX

EDGES = [*sorted(2.0**k * half for k in range(-10, 10) for half in (1.0, 1.5)), 2.0**10]


def rows_of(fmt: Format, columns: int) -> Bits:
    """Distances of all sizes, masked elements, and rows without any bound."""
    rng = np.random.default_rng(5)
    scales = [1.0, 1.0, 100.0, 0.01, 0.1, 10.0, 3e-5, 2000.0]
    values = np.stack([rng.standard_normal(columns) * scale for scale in scales])
    values[-1, ::3] = -np.inf
    values[0] = -np.inf
    values[1, 1] = np.nan
    return encode(values, fmt)


@pytest.mark.parametrize("fmt", [FLOAT16, FLOAT32], ids=lambda fmt: fmt.name)
def test_each_bin_has_its_largest_error_and_bound(fmt):
    columns = 67
    bits = rows_of(fmt, columns)
    output = rounded(bits, fmt) + np.random.default_rng(1).integers(0, 3, bits.shape).astype(fmt.storage)
    measured = judge(bits, output, fmt, with_peaks=True)
    logits, outputs = decode(bits, fmt), decode(output, fmt)
    exact = reference(logits, fmt)
    allowed = bounds.bounds(logits, ulp.scaled(exact, fmt), exact.values, model(STANDARD, fmt))
    by_distance: dict[int, tuple[float, float, float]] = {}
    by_column: dict[int, tuple[float, float, float]] = {}
    for row in range(2, len(logits)):
        for column in range(columns):
            if logits[row, column] == -np.inf or not np.isfinite(outputs[row, column]):
                continue
            error = float(exact_ulp_error(float(outputs[row, column]), reference_value(exact, row, column), fmt))
            bound = float(allowed.elements[row, column])
            distance = bisect_right(EDGES, logits[row].max() - logits[row, column])
            place = math.floor(math.log2(column)) + 1 if column else 0
            for found, key in ((by_distance, distance), (by_column, place)):
                before = found.get(key, (0.0, 0.0, 0.0))
                found[key] = max(before[0], error), max(before[1], bound), max(before[2], error / bound)
    assert len(by_distance) > 20
    assert sorted(by_column) == list(range(8))
    for got, wanted in ((measured.by_distance, by_distance), (measured.by_column, by_column)):
        assert list(got) == sorted(wanted)
        assert [got[key] for key in got] == [pytest.approx(wanted[key], rel=1e-9, abs=1e-9) for key in got]


def test_edges_are_those_of_half_octaves_and_of_powers_of_two():
    assert [distance_below(b) for b in range(42)] == [*EDGES, None]
    assert [column_below(b) for b in range(4)] == [1, 2, 4, 8]


@pytest.mark.parametrize("fmt", list(FORMATS.values()), ids=lambda fmt: fmt.name)
def test_a_wrong_element_shows_in_its_own_bins_alone(fmt):
    bits = np.zeros((40, 1500), fmt.storage)
    bits[:, 700:] = encode(np.array([-1.25]), fmt)
    right = rounded(bits, fmt)
    before = judge(bits, right, fmt, with_peaks=True)
    # Far behind a sample of the elements, so that nothing but a look at all of them finds it.
    right[39, 1100] += np.array(40).astype(fmt.storage)
    after = judge(bits, right, fmt, with_peaks=True)
    assert list(after.by_distance) == [0, 21]
    assert after.by_distance[0] == before.by_distance[0]
    assert after.by_distance[21][0] > 39 > before.by_distance[21][0]
    changed = [key for key in before.by_column if after.by_column[key] != before.by_column[key]]
    assert changed == [11]


def test_an_error_beyond_its_own_bound_shows_below_a_larger_one():
    # The wide row's bound is larger than the narrow row's.
    bits = np.zeros((1, 2), np.uint32)
    output = rounded(bits, FLOAT32)
    narrow = judge(bits, output + np.uint32(30), FLOAT32, with_peaks=True)
    bits = np.zeros((1, 1 << 16), np.uint32)
    wide = judge(bits, rounded(bits, FLOAT32), FLOAT32, with_peaks=True)
    error, bound, share = merge([narrow, wide]).by_distance[0]
    assert error < bound
    assert share > 1 > wide.by_distance[0][2]


def test_the_curve_of_a_logarithm_is_in_its_own_unit():
    bits = encode(np.array([[0.0, -0.5, -20.0]]), FLOAT32)
    exact = LOG_SOFTMAX.answer(decode(bits, FLOAT32), FLOAT32, "nan").values
    output = encode(exact, FLOAT32)
    # -0.97 and -0.47 are counted in ULPs of 1: 2^-23.
    wrong = encode(exact + 8 * 2.0**-23, FLOAT32)
    output[0, 1] = wrong[0, 1]
    measured = judge(bits, output, FLOAT32, operation=LOG_SOFTMAX, with_peaks=True)
    assert measured.by_column[1][0] == pytest.approx(8, abs=0.6)


def test_what_has_no_bound_has_no_curve():
    bits = encode(np.array([[np.nan, 0.0], [-np.inf, -np.inf]]), FLOAT16)
    measured = judge(bits, rounded(bits, FLOAT16), FLOAT16, with_peaks=True)
    assert measured.by_distance == measured.by_column == {}
