"""Small cases for the tests of corpora."""

import numpy as np

from oracles.formats import FORMATS, encode
from softcheck.cases.case import PACKED, Case, digest
from softcheck.cases.importing import case_from_bits
from softcheck.cases.recipe import Normal, Recipe


def case_of(values, dtype="float16", name=None, **fields):
    bits = encode(np.array(values, dtype=np.float64), FORMATS[dtype])
    return case_from_bits(bits, dtype, family="test", name=name, provenance="a test", **fields)


def large_case():
    """A case that holds a recipe."""
    recipe, fmt = Recipe(Normal(3)), FORMATS["float32"]
    return Case(
        id="t/n/float32",
        dtype="float32",
        shape=(4, 100),
        digest=digest(recipe.bits(4, 100, fmt), fmt, PACKED),
        recipe=recipe,
        provenance="x",
    )
