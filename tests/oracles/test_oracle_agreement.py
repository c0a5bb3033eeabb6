import itertools
import subprocess
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracle_families import FAMILIES, SPECIAL, disagreement

from oracles import ORACLES

PAIRS = list(itertools.combinations(ORACLES, 2))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_oracles_agree_within_their_bounds(family, one, other):
    values = FAMILIES[family]
    assert disagreement(ORACLES[one].softmax(values), ORACLES[other].softmax(values)) <= 1


@pytest.mark.parametrize("columns", [*range(1, 36), 127, 128, 129, 257, 1000, 4097])
def test_fast_oracles_agree_at_every_width(columns):
    values = np.random.default_rng(columns).normal(size=(3, columns)) * 4
    ball = ORACLES["ball"].softmax(values)
    assert disagreement(ORACLES["float64"].softmax(values), ball) <= 1
    assert disagreement(ORACLES["double_double"].softmax(values), ball) <= 1


def test_all_oracles_agree_on_a_hundred_thousand_columns():
    values = np.random.default_rng(5).normal(size=(1, 100_000)).astype(np.float16).astype(np.float64)
    references = [oracle.softmax(values) for oracle in ORACLES.values()]
    for one, other in itertools.combinations(references, 2):
        assert disagreement(one, other) <= 1


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("fully_masked", ["nan", "zero"])
def test_special_rows_follow_the_convention(name, fully_masked):
    got = ORACLES[name].softmax(SPECIAL, fully_masked=fully_masked).values
    nan = np.nan
    masked = [nan] * 3 if fully_masked == "nan" else [0.0] * 3
    expected = [[nan] * 3] * 4 + [masked, [0.5, 0.0, 0.5], [nan] * 3]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0)])
def test_empty_inputs_give_empty_outputs(name, shape):
    reference = ORACLES[name].softmax(np.zeros(shape))
    assert reference.high.shape == reference.relative_error.shape == shape


@pytest.mark.parametrize("name", ORACLES)
def test_masked_elements_are_exactly_zero(name):
    values = FAMILIES["masked"]
    reference = ORACLES[name].softmax(values)
    masked = np.isneginf(values)
    assert not reference.high[masked].any()
    assert not reference.relative_error[masked & (reference.high != 0)].any()


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("copies", [1, 2, 8, 64, 4096])
def test_powers_of_two_are_exact_and_claim_it(name, copies):
    reference = ORACLES[name].softmax(np.full((2, copies), 7.25))
    assert (reference.values == 1 / copies).all()
    assert not reference.low.any()
    assert not reference.relative_error.any()


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("copies", [1, 2, 4, 32])
@pytest.mark.parametrize("distance", [1e-3, 30, 37, 60, 75, 80, 700, 1e5, 1e300])
def test_maxima_with_company_lie_below_the_power_of_two(name, copies, distance):
    reference = ORACLES[name].softmax(np.array([[1e-3] * copies + [1e-3 - distance]]))
    high, low = np.ldexp(reference.high[0, :copies], reference.exponent[0, :copies]), reference.low[0, :copies]
    assert ((high < 1 / copies) | ((high == 1 / copies) & (low < 0))).all()


@pytest.mark.parametrize("name", ["double_double", "exact", "ball"])
def test_binades_are_right_where_logits_differ_by_almost_nothing(name):
    context = mpmath.mp.clone()
    context.prec = 5000
    for family in ("subnormal_logits", "subnormal_pair", "symmetric_cancelling"):
        values = FAMILIES[family]
        reference = ORACLES[name].softmax(values)
        for row, high, low in zip(values, np.ldexp(reference.high, reference.exponent), reference.low, strict=True):
            terms = [context.exp(context.mpf(x)) for x in row.tolist()]
            total = context.fsum(terms)
            for term, h, w in zip(terms, high, low, strict=True):
                # The sum of high and low, where low may be far below the last bit of high.
                side = np.sign(h - 1 / len(row)) or np.sign(w)
                assert side == int(context.sign(term / total - context.mpf(1) / len(row)))


@pytest.mark.parametrize("name", ORACLES)
def test_a_little_more_than_the_bound_is_noticed(name):
    values = FAMILIES["normal"]
    other = ORACLES["exact" if name == "ball" else "ball"].softmax(values)
    reference = ORACLES[name].softmax(values)
    assert disagreement(reference, other) <= 1
    step = 2.01 * (reference.relative_error + other.relative_error + 2.0**-104) * reference.high
    perturbed = replace(
        reference, low=reference.low + np.where(np.arange(values.size).reshape(values.shape) == 5, step, 0)
    )
    assert disagreement(perturbed, other) > 1


@pytest.mark.parametrize("fault", ["nan", "masked", "shape"])
def test_gross_faults_are_noticed(fault):
    values = FAMILIES["masked"]
    reference = ORACLES["ball"].softmax(values)
    high = reference.high.copy()
    if fault == "nan":
        high[0, 0] = np.nan
    elif fault == "masked":
        high[np.isneginf(values)] = 2.0**-60
    faulty = replace(reference, high=high[:, 1:] if fault == "shape" else high)
    assert disagreement(faulty, reference) > 1


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 20)),
        elements=st.one_of(
            st.floats(-50, 50),
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from([-np.inf, 0.0, 1.0, 5e-324]),
        ),
    )
)
def test_oracles_agree_on_generated_matrices(values):
    ball = ORACLES["ball"].softmax(values)
    for name in ("float64", "double_double", "exact"):
        assert disagreement(ORACLES[name].softmax(values), ball) <= 1


@pytest.mark.parametrize("name", ORACLES)
def test_wrong_input_is_refused_with_what_was_expected(name):
    with pytest.raises(ValueError, match="expected a float64 matrix"):
        ORACLES[name].softmax(np.zeros(3))
    with pytest.raises(ValueError, match="float32"):
        ORACLES[name].softmax(np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="'nan' or 'zero'"):
        ORACLES[name].softmax(np.zeros((2, 2)), fully_masked="one")


def test_the_package_loads_neither_mpmath_nor_flint():
    code = "import oracles.float64, sys; sys.exit(any(m in sys.modules for m in ('mpmath', 'flint', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
