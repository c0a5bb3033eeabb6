"""Recipes: the same bits everywhere, and the first rows of a case are a smaller case."""

import hashlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.formats import FORMATS, decode
from softcheck.cases import recipe as recipes
from softcheck.cases.recipe import (
    Choice,
    Constant,
    Cycle,
    Mask,
    Normal,
    OneHot,
    Put,
    Ramp,
    RandomBits,
    Recipe,
    RowConstants,
    Shift,
    Sort,
    Uniform,
    random_words,
)
from softcheck.errors import UsageError

GENERATORS = [
    Normal(7, 3.0, -1.0),
    Uniform(8, -5.0, 5.0),
    RandomBits(9),
    RandomBits(9, specials=True),
    Constant("max"),
    Ramp(-1.0, 0.125),
    Cycle((1.0, "-inf", "least_subnormal")),
    RowConstants((0.0, "min", 2.0)),
    Choice(3, (0.0, 1.0, -2.0)),
    OneHot(-1.0, 4.0),
]
MODIFIERS = [
    Mask("trailing", 3),
    Mask("all", row=1),
    Put(2, "nan", row=0),
    Put(-1, 3.0),
    Sort(),
    Sort(descending=True),
    Shift(0.5),
]


def splitmix64(seed, count):
    """The published algorithm in Python integers, independent of numpy."""
    state, mask, words = seed * 0xD1342543DE82EF95 % 2**64, 2**64 - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        words.append(z ^ (z >> 31))
    return words


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_random_words_are_splitmix64(seed):
    assert random_words(seed, 2, 3, 2).ravel().tolist() == splitmix64(seed, 12)


def test_random_words_from_a_later_row_are_the_same_words():
    assert (random_words(5, 2, 3, 7, first_row=4) == random_words(5, 6, 3, 7)[4:]).all()


FROZEN_RECIPES = {
    "normal": Recipe(Normal(7, 3.0, -1.0)),
    "uniform_sorted": Recipe(Uniform(8, -5.0, 5.0), (Sort(),)),
    "random_bits": Recipe(RandomBits(9, specials=True)),
    "choice_shifted": Recipe(Choice(3, (0.0, 1.0, -2.0)), (Shift(0.1),)),
}
# Last element of five rows of forty, and the digest of all: corpora rely on these never changing.
FROZEN = {
    ("normal", "float16"): ("c28c", "ad40b14b7cad6884"),
    ("normal", "bfloat16"): ("c052", "d1ccd9cd7221424f"),
    ("normal", "float32"): ("c0518eab", "c036a73992337340"),
    ("normal", "float64"): ("c00a31d565c23f58", "2c37d69efae854b0"),
    ("uniform_sorted", "float16"): ("44e8", "2be73468cb058294"),
    ("uniform_sorted", "bfloat16"): ("409d", "acc1a1e8505b16e9"),
    ("uniform_sorted", "float32"): ("409cf244", "8642557a2dd72db9"),
    ("uniform_sorted", "float64"): ("40139e487b662a86", "2f28115f142e79b6"),
    ("random_bits", "float16"): ("2ca9", "6404809605730ad7"),
    ("random_bits", "bfloat16"): ("2ca9", "bba5bc67cb351c27"),
    ("random_bits", "float32"): ("2ca9313c", "b72303aacd0a5d1a"),
    ("random_bits", "float64"): ("2ca9313c54b5b8a7", "173cd941e7a60036"),
    ("choice_shifted", "float16"): ("bf9a", "7f478e9993ac9b97"),
    ("choice_shifted", "bfloat16"): ("bff3", "3bc2e84f87d4400f"),
    ("choice_shifted", "float32"): ("bff33333", "5fb2be0cdb8c861e"),
    ("choice_shifted", "float64"): ("bffe666666666666", "36152545285fddab"),
}


@pytest.mark.parametrize(("name", "dtype"), FROZEN)
def test_recipes_give_the_recorded_bits(name, dtype):
    fmt = FORMATS[dtype]
    bits = FROZEN_RECIPES[name].bits(5, 40, fmt)
    little_endian = bits.astype(fmt.storage.newbyteorder("<"))
    found = (f"{int(bits[4, 39]):0{fmt.hex_digits}x}", hashlib.sha256(little_endian.tobytes()).hexdigest()[:16])
    assert found == FROZEN[name, dtype]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: type(g).__name__)
@given(
    shape=st.tuples(st.integers(0, 6), st.integers(0, 20)),
    first=st.integers(0, 6),
    then=st.lists(st.sampled_from(MODIFIERS), max_size=3),
)
@settings(deadline=None, max_examples=15)
def test_first_rows_do_not_depend_on_how_many_follow(dtype, generator, shape, first, then):
    rows, columns = shape
    recipe = Recipe(generator, tuple(then))
    whole = recipe.bits(rows, columns, FORMATS[dtype])
    assert whole.shape == (rows, columns)
    assert whole.dtype == FORMATS[dtype].storage
    kept = min(first, rows)
    assert (recipe.bits(kept, columns, FORMATS[dtype]) == whole[:kept]).all()


def test_normal_is_the_same_in_one_block_and_in_many(monkeypatch):
    whole = Recipe(Normal(1)).bits(50, 30, FORMATS["float64"])
    monkeypatch.setattr(recipes, "_BLOCK_ELEMENTS", 70)
    assert (Recipe(Normal(1)).bits(50, 30, FORMATS["float64"]) == whole).all()


def test_normal_has_the_moments_it_claims():
    values = Normal(3, 2.0, 5.0).values(100, 1000, FORMATS["float64"])
    standard = (values - 5.0) / 2.0
    # Standard errors for 10^5 samples: 0.0032 of the mean, 0.0045 of the variance.
    assert abs(standard.mean()) < 0.015
    assert abs(standard.var() - 1.0) < 0.02
    assert np.abs(standard).max() <= 6.0
    assert abs((np.abs(standard) < 1.0).mean() - 0.6827) < 0.01
    assert len(np.unique(standard)) == standard.size


def test_uniform_and_random_bits_cover_their_ranges():
    values = Uniform(4, -3.0, 5.0).values(100, 1000, FORMATS["float64"])
    assert -3.0 <= values.min() < -2.999
    assert 4.999 < values.max() < 5.0
    finite = RandomBits(1).values(64, 1024, FORMATS["float16"])
    assert np.isfinite(finite).all()
    anything = decode(Recipe(RandomBits(1, specials=True)).bits(64, 1024, FORMATS["float16"]), FORMATS["float16"])
    assert np.isnan(anything).any()
    assert np.isposinf(anything).any()
    assert np.isneginf(anything).any()


def values_of(*parts, shape=(2, 5), dtype="float32"):
    return decode(Recipe(parts[0], parts[1:]).bits(*shape, FORMATS[dtype]), FORMATS[dtype]).tolist()


INF = float("inf")


@pytest.mark.parametrize(
    ("modifier", "expected"),
    [
        (Mask("leading", 2), [[-INF, -INF, 2, 3, 4]] * 2),
        (Mask("trailing", 1), [[0, 1, 2, 3, -INF]] * 2),
        (Mask("even", value=9.0), [[9, 1, 9, 3, 9]] * 2),
        (Mask("odd"), [[0, -INF, 2, -INF, 4]] * 2),
        (Mask("all", row=1), [[0, 1, 2, 3, 4], [-INF] * 5]),
        (Mask("all", row=7), [[0, 1, 2, 3, 4]] * 2),
        (Mask("all_but", 3), [[-INF, -INF, -INF, 3, -INF]] * 2),
        (Put(-1, "inf", row=0), [[0, 1, 2, 3, INF], [0, 1, 2, 3, 4]]),
        (Sort(descending=True), [[4, 3, 2, 1, 0]] * 2),
        (Shift(10.0), [[10, 11, 12, 13, 14]] * 2),
    ],
    ids=str,
)
def test_modifiers(modifier, expected):
    assert values_of(Ramp(0.0, 1.0), modifier) == expected


def test_generators_of_fixed_values():
    assert values_of(OneHot(0.0, 1.0), shape=(3, 2)) == [[1, 0], [0, 1], [1, 0]]
    assert values_of(OneHot(0.0, 1.0, 1), shape=(2, 3)) == [[0, 1, 0]] * 2
    assert values_of(Cycle((1.0, 2.0)), shape=(1, 3)) == [[1, 2, 1]]
    assert values_of(RowConstants((1.0, 2.0)), shape=(3, 1)) == [[1], [2], [1]]
    assert values_of(Constant("max"), shape=(1, 1), dtype="float16") == [[65504]]


def test_a_recipe_larger_than_memory_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(recipes, "available_bytes", lambda: 1_000_000)
    with pytest.raises(UsageError, match=r"recipe of 1,000,000 elements spans.*Ask for fewer rows or columns"):
        Recipe(Constant(0.0)).bits(1000, 1000, FORMATS["float16"])


@pytest.mark.parametrize(
    "line",
    [
        b'{"start":{"make":"normal","seed":-1}}',
        b'{"start":{"make":"normal","seed":9223372036854775808}}',
        b'{"start":{"make":"cycle","items":[]}}',
        b'{"start":{"make":"choice","seed":1,"items":[]}}',
        b'{"start":{"make":"constant","value":"NaN"}}',
        b'{"start":{"make":"constant","value":NaN}}',
        b'{"start":{"make":"exec","value":1}}',
        b'{"start":{"make":"constant","value":1,"more":2}}',
        b'{"start":{"make":"constant","value":1},"then":[{"op":"put","column":0,"value":1,"row":-1}]}',
    ],
)
def test_a_recipe_that_could_not_run_does_not_decode(line):
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(line, type=Recipe)
