"""Large inputs become recipes only where the recipe gives the same bits, and lines stay short."""

import numpy as np
import pytest

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, encode
from softcheck.cases.case import Case, check_contents
from softcheck.cases.corpus import encode_case, load
from softcheck.cases.corpus_edit import LONGEST_LINE, add, compacted
from softcheck.cases.importing import case_from_bits
from softcheck.cases.recipe import Normal, Put, Ramp, Recipe
from softcheck.errors import UsageError


def case_of(values, fmt=FLOAT32):
    return case_from_bits(encode(np.asarray(values, dtype=np.float64), fmt), fmt.name, provenance="test")


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda fmt: fmt.name)
def test_one_value_with_exceptions_becomes_a_recipe_of_the_same_bits(fmt):
    values = np.zeros((2, 200_000))
    values[1, 70_000], values[0, 3], values[0, 4] = -np.inf, 0.1, -0.0
    case = case_of(values, fmt)
    small = compacted(case)
    assert small.rows is None
    assert len(encode_case(small)) < 1000
    assert np.array_equal(small.bits(), case.bits())
    assert small.digest == case.digest
    check_contents(small)


def test_a_beginning_of_the_original_keeps_its_recipe():
    original = Case(
        id="ramp/wide/float32",
        dtype="float32",
        shape=(8, 4000),
        digest="",
        recipe=Recipe(Ramp(0.0, 0.5)),
        provenance="",
    )
    cut = case_of(0.5 * np.tile(np.arange(3000.0), (2, 1)))
    assert compacted(cut, original).recipe == original.recipe
    assert compacted(cut).recipe is None
    assert compacted(case_of(cut.bits().view(np.float32) + 1.0), original).recipe is None


def test_nan_payloads_are_kept_as_bits():
    bits = np.full((1, 1000), 0x7FC00001, dtype=np.uint32)
    case = case_from_bits(bits, "float32", provenance="test")
    assert compacted(case) is case


def test_what_can_be_read_stays_as_bits_and_what_is_irregular_too():
    few = case_of(np.zeros((1, 256)))
    assert compacted(few) is few
    many = case_of(np.arange(3000.0).reshape(1, -1))
    assert compacted(many) is many
    recipe = Recipe(Normal(seed=1), (Put(column=0, value=1.0),))
    made = Case(id="a/b/float32", dtype="float32", shape=(9, 900), digest="", recipe=recipe, provenance="")
    assert compacted(made) is made


def test_a_line_that_is_too_long_is_refused_and_a_regular_one_is_saved(tmp_path):
    target = tmp_path / "own.jsonl"
    wide = case_of(np.arange(200_000.0).reshape(1, -1))
    with pytest.raises(
        UsageError, match=r"takes 1,8\d\d,\d\d\d bytes, expected at most 1,048,576; save the rows and columns"
    ):
        add(wide, target)
    assert not target.exists()
    add(case_of(np.ones((1, 600_000))), target)
    assert target.stat().st_size < LONGEST_LINE
    (saved,) = load([target])
    assert saved.recipe is not None
    assert saved.bits().shape == (1, 600_000)
