"""Errors and sets of columns of a trace, against independent ones."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.formats import FORMATS, decode
from oracles.reference import Reference
from softcheck.operations.ulp import scaled, scaled_error
from softcheck.tracing.shadow import as_sets, ends_of, in_words, union_of

# Triton decides when it is imported if kernels are interpreted, so that the module of steps is left to a child.
WORDS = {
    0: "no column",
    0b1: "column 0",
    0b1110: "columns 1 to 3",
    0b1011: "columns 0 to 1, 3",
    0b101010101: "5 of columns 0 to 8",
}


@pytest.mark.parametrize("columns", WORDS)
def test_sets_of_columns_in_words(columns):
    assert in_words(columns) == WORDS[columns]


@given(st.sets(st.integers(0, 300)))
def test_sets_of_columns_hold_what_was_put_in(columns):
    held = union_of(as_sets(np.array([-1, *columns], dtype=np.int64)))
    assert {i for i in range(400) if held >> i & 1} == columns
    assert ends_of(held) == ((min(columns), max(columns)) if columns else None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_errors_are_those_of_the_judge(tracing, dtype):
    fmt = FORMATS[dtype]
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << (fmt.width - 1), size=(1, 200)).astype(fmt.storage)
    with np.errstate(all="ignore"):
        values = decode(bits, fmt)
        exact = np.where(
            rng.random(200) < 0.1, 2.0 ** np.rint(rng.normal(size=200) * 8), np.abs(values) * rng.uniform(0.5, 2, 200)
        )
        reference = Reference(
            exact, np.zeros_like(exact), np.zeros(exact.shape, np.int64), np.zeros_like(exact), 0.0, settled=True
        )
        expected = scaled_error(values, scaled(reference, fmt))
    finite = np.isfinite(values) & np.isfinite(exact) & (expected > 1e-3) & (expected < 1e300)
    assert finite.sum() > 100
    found = tracing.errors(values, exact, dtype)
    assert found[finite] == pytest.approx(expected[finite], rel=1e-12)


def test_errors_of_special_values(tracing):
    inf, nan = np.inf, np.nan
    values, exact = np.array([inf, nan, nan, 1.0, inf, -inf, 0.0]), np.array([inf, nan, 1.0, nan, 1.0, inf, 0.0])
    assert tracing.errors(values, exact, "float32").tolist() == [0, 0, inf, inf, inf, inf, 0]


def test_an_error_is_counted_in_the_ulp_of_the_exact_value(tracing):
    just_below_one = Fraction(2**24 - 1, 2**24)
    found = tracing.errors(np.array([1.0]), np.array([float(just_below_one)]), "float32")
    assert found.tolist() == [1.0]
