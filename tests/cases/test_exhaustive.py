"""Domains hold what they say, each row once, and any part of one equals the same part of the whole."""

import itertools

import numpy as np
import pytest

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, decode
from softcheck.cases.exhaustive import ascending_patterns, domain, lattice_patterns, telling_rows
from softcheck.errors import UsageError


def test_singles_are_every_pattern_once():
    singles = domain("float16", 1)
    assert singles.is_complete
    assert np.array_equal(singles.bits(0, singles.total)[:, 0], np.arange(65536))


def test_pairs_count_up_in_the_second_column_first():
    pairs = domain("bfloat16", 2)
    assert (pairs.total, pairs.is_complete) == (2**32, True)
    assert pairs.bits(0x12345678, 2).tolist() == [[0x1234, 0x5678], [0x1234, 0x5679]]
    assert pairs.bits(2**32 - 1, 1).tolist() == [[0xFFFF, 0xFFFF]]


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16])
def test_lattice_holds_specials_subnormals_and_both_signs_and_is_small(fmt):
    patterns = lattice_patterns(fmt)
    values = decode(patterns, fmt)
    assert 50 < len(patterns) == len(set(patterns.tolist())) < 100
    assert np.isnan(values).any()
    assert {float("inf"), float("-inf"), 0.0, fmt.max, -fmt.max, fmt.least_subnormal} <= set(values.tolist())
    pairs = domain(fmt.name, 2, kind="lattice")
    assert not pairs.is_complete
    rows = pairs.bits(0, pairs.total)
    assert len(np.unique(rows, axis=0)) == pairs.total == len(patterns) ** 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dtype": "float16", "columns": 2}, "every row of 2 float16 patterns"),
        (
            {"dtype": "bfloat16", "columns": 3, "first": 7},
            "every row of 3 bfloat16 patterns, the first 7 of 281,474,976,710,656",
        ),
        ({"dtype": "float16", "columns": 2, "kind": "lattice"}, "rows of 2 among"),
        ({"dtype": "float32", "columns": 2, "kind": "differences"}, "rows (0, -d) and (d, 0) for every float32 d >= 0"),
    ],
)
def test_every_domain_says_what_it_is(given, told):
    assert domain(**given).describe().startswith(told)


def test_differences_are_every_distance_on_both_sides_of_zero():
    differences = domain("float32", 2, kind="differences")
    assert differences.total == 2 * (0x7F800000 + 1)
    assert decode(differences.bits(2, 4), FLOAT32).tolist() == [
        [0, -(2.0**-149)],
        [2.0**-149, 0],
        [0, -(2.0**-148)],
        [2.0**-148, 0],
    ]
    assert decode(differences.bits(differences.total - 2, 2), FLOAT32).tolist() == [[0, -np.inf], [np.inf, 0]]


def test_spread_pairs_are_one_in_16_of_each_pattern():
    pairs = domain("float16", 2, kind="spread")
    assert (pairs.total, pairs.is_complete) == (2**28, False)
    rows = pairs.bits(0, 2**20)
    assert len(np.unique(rows, axis=0)) == 2**20
    assert np.array_equal(np.unique(rows[:, 0], return_counts=True)[1], [4096] * 256)
    assert np.array_equal(np.unique(rows[:, 1], return_counts=True)[1], [16] * 65536)
    last = pairs.bits(pairs.total - 4096, 4096)
    assert (last[:, 0] == 0xFFFF).all()
    infinity = pairs.bits(0x7C00 * 4096, 4096)
    assert ((infinity == 0x7C00).all(axis=1)).any()


def test_parts_join_to_the_whole():
    part = domain("float16", 1, first=1000)
    assert (part.is_complete, part.first) == (False, 1000)
    cut = [(0, 300), (300, 300), (600, 300), (900, 100)]
    assert np.array_equal(np.concatenate([part.bits(*c) for c in cut]), part.bits(0, 1000))


@pytest.mark.parametrize(
    "given",
    [
        {"dtype": "float16", "columns": 1},
        {"dtype": "bfloat16", "columns": 1},
        {"dtype": "float16", "columns": 2},
        {"dtype": "float16", "columns": 2, "kind": "spread"},
        {"dtype": "bfloat16", "columns": 2, "kind": "lattice"},
        {"dtype": "float32", "columns": 2, "kind": "differences"},
        {"dtype": "float16", "columns": 3, "first": 5000},
    ],
)
def test_telling_rows_are_few_rows_of_the_domain_the_same_ones_each_time(given):
    whole = domain(**given)
    rows = telling_rows(whole)
    assert rows == sorted(set(telling_rows(whole)))
    assert 100 < len(rows) < 1000
    assert 0 <= rows[0] <= rows[-1] < whole.first


@pytest.mark.parametrize("columns", [1, 2])
def test_telling_rows_hold_special_values_and_every_exponent(columns):
    whole = domain("float16", columns)
    values = decode(np.concatenate([whole.bits(row, 1) for row in telling_rows(whole)]), whole.format)
    assert np.isnan(values).any()
    assert {np.inf, -np.inf, 0.0, 65504.0, -65504.0, 2.0**-24} <= set(values.ravel().tolist())
    finite = values[np.isfinite(values) & (np.abs(values) >= 2.0**-14)]
    assert set(np.frexp(finite)[1].tolist()) == set(range(-13, 17))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("float32", 1, {}), "too many patterns"),
        (("float16", 2, {"kind": "differences"}), "float32"),
        (("float16", 1, {"first": 0}), "at least 1"),
    ],
)
def test_what_is_too_large_or_makes_no_sense_is_refused(arguments, said):
    dtype, columns, more = arguments
    with pytest.raises(UsageError, match=said):
        domain(dtype, columns, **more)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_ascending_rows_are_every_multiset_once(columns):
    rows = np.stack(ascending_patterns(np.arange(5000), columns, lambda x: x.astype(np.int64)), axis=1)
    assert (np.diff(rows, axis=1) >= 0).all()
    assert len(np.unique(rows, axis=0)) == 5000
    wanted = sorted(itertools.combinations_with_replacement(range(int(rows.max()) + 1), columns), key=lambda r: r[::-1])
    assert rows.tolist() == [list(row) for row in wanted[:5000]]


def test_the_last_ascending_rows_are_those_of_the_largest_patterns():
    whole = domain("bfloat16", 3, kind="ascending")
    assert whole.total == 65536 * 65537 * 65538 // 6
    assert whole.bits(whole.total - 3, 3).tolist() == [
        [65533, 65535, 65535],
        [65534, 65535, 65535],
        [65535, 65535, 65535],
    ]
    assert not whole.is_complete, "it stands for every row only where the order of elements is known not to count"


@pytest.mark.parametrize("digit", [2**15, 40000, 65000, 65535, 65537])
def test_numbers_around_a_binomial_coefficient_have_the_right_first_digit(digit):
    edge = digit * (digit - 1) * (digit - 2) // 6
    rows = np.stack(ascending_patterns(np.arange(edge - 2, edge + 2), 3, lambda x: x.astype(np.int64)), axis=1)
    assert rows[:, 2].tolist() == [digit - 3, digit - 3, digit - 2, digit - 2]
