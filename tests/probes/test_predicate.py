"""The words for a set of failing sizes: examples as users ask for them, and the promise that they fit exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_reading import sizes_that

from softcheck.facts import Where
from softcheck.probes.predicate import sizes_of

DENSE = range(1, 1101)
EDGES = sorted({*range(1, 1101), *(2**k + d for k in range(11, 18) for d in (-1, 0, 1))})


def describe(tried, failing, symbol="N"):
    """The words for the failing sizes. The structure that they are made of holds for exactly these too."""
    found = sizes_of(tried, failing, "columns" if symbol == "N" else symbol)
    assert {n for n in tried if any(each.holds(n) for each in found)} == set(failing)
    return Where(any_of=tuple((each,) for each in found)).words("N")


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("all N tried", lambda n: True),
        ("N > 512", lambda n: n > 512),
        ("N >= 1024", lambda n: n >= 1024),
        ("N < 32", lambda n: n < 32),
        ("N <= 100", lambda n: n <= 100),
        ("N from 513 to 1023", lambda n: 513 <= n <= 1023),
        ("N = 385", lambda n: n == 385),
        ("N = 1", lambda n: n == 1),
        ("N > 131072", lambda n: n == 131073),
        ("N = 7, 385", lambda n: n in {7, 385}),
        ("odd N", lambda n: n % 2 == 1),
        ("odd N from 513 to 1023", lambda n: n % 2 == 1 and 512 < n < 1024),
        ("odd N > 512", lambda n: n % 2 == 1 and n > 512),
        ("N not a power of two", lambda n: n & (n - 1) != 0),
        ("N a power of two", lambda n: n & (n - 1) == 0),
        ("N % 128 != 0", lambda n: n % 128 != 0),
        ("N % 12 == 0", lambda n: n % 12 == 0),
        ("N % 8 == 3", lambda n: n % 8 == 3),
        ("N > 512 with N % 128 != 0", lambda n: n > 512 and n % 128 != 0),
        ("N > 64 with N not a power of two", lambda n: n > 64 and n & (n - 1) != 0),
        ("all N tried but 64, 128", lambda n: n not in {64, 128}),
        ("N < 6 or N > 512", lambda n: n <= 5 or n > 512),
        ("N < 8 or odd N > 512", lambda n: n < 8 or (n > 512 and n % 2 == 1)),
        ("N in 3-5, 9, 17-31, 60, 77-79, 103", lambda n: n in {*range(3, 6), 9, *range(17, 32), 60, 77, 78, 79, 103}),
    ],
)
def test_words(words, fails):
    failing = [n for n in EDGES if fails(n)]
    found = describe(EDGES, failing)
    assert found == words
    assert sizes_that(found, EDGES, failing) == failing


def test_a_long_list_is_cut():
    failing = [n for n in DENSE if n * n % 101 < 40]
    found = describe(DENSE, failing)
    assert found.endswith("more ranges")
    assert len(found) < 150
    assert sizes_that(found, DENSE, failing) == failing


def test_sizes_far_apart():
    """Under the interpreter few widths are tried, and neighbours among them are far apart."""
    tried = [1, 2, 3, 31, 33, 127, 128, 129, 500, 513, 1025]
    assert describe(tried, [500, 513, 1025]) == "N >= 500"
    assert describe(tried, [31, 33, 127]) == "N from 31 to 127"
    assert describe([1, 65535, 65536, 2**20 + 1], [65536, 2**20 + 1], "rows") == "rows >= 65536"


@given(st.data())
def test_holds_for_exactly_the_failing_sizes(data):
    tried = data.draw(st.lists(st.integers(0, 2000), min_size=1, max_size=60, unique=True))
    failing = data.draw(st.lists(st.sampled_from(tried), min_size=1, unique=True))
    found = describe(tried, failing)
    assert set(sizes_that(found, tried, failing)) == set(failing)


@given(
    low=st.integers(1, 1000),
    length=st.integers(1, 500),
    modulus=st.sampled_from([1, 2, 4, 16, 128]),
    other=st.booleans(),
)
def test_patterns_are_never_spelt_out(low, length, modulus, other):
    failing = [n for n in DENSE if low <= n <= low + length and (n % modulus == 0) is not other]
    if failing:
        assert " in " not in describe(DENSE, failing)
