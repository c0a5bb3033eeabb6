from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from oracle_families import FAMILIES, SPECIAL

from oracles import ball, exact
from oracles._rows import Groups, group
from oracles.formats import FLOAT16, FLOAT64, FORMATS, encode


def near_midpoint_row(fmt, above, terms):
    """A row whose first softmax misses the midpoint above 1/2 by about 2^(-50 terms), on a known side.

    1 / (1 + sum e^-d_i) equals the midpoint if the sum equals a number t. Each further logit takes what is left of t and
    rounds to the side that leaves something; the last one falls short (softmax above the midpoint) or overshoots.
    """
    context = mpmath.mp.clone()
    context.prec = 60 * terms + 400
    midpoint = context.mpf(1) / 2 + context.ldexp(1, -fmt.precision - 1)
    left = 1 / midpoint - 1
    row = [0.0]
    for i in range(terms):
        overshoot = i == terms - 1 and not above
        logit = float(context.log(left))
        # Rounding once more makes sure of the side that conversion to float64 left open.
        logit = np.nextafter(np.nextafter(logit, np.inf if overshoot else -np.inf), np.inf if overshoot else -np.inf)
        row.append(float(logit))
        left -= context.exp(context.mpf(float(logit)))
        assert (left > 0) != overshoot
    return np.array(row)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("above", [True, False])
def test_rounding_raises_its_precision_until_it_is_decided(fmt, above):
    rounded = exact.round_row(near_midpoint_row(fmt, above, 14), fmt)
    half = int(encode(np.array(0.5), fmt))
    assert rounded.bits[0] == half + (1 if above else 0)
    assert rounded.raises >= 4
    assert rounded.precision > 600


def test_a_ceiling_that_is_too_low_is_reported(monkeypatch):
    monkeypatch.setattr(exact, "MAX_PRECISION", 256)
    with pytest.raises(ArithmeticError, match="MAX_PRECISION = 256"):
        exact.round_row(near_midpoint_row(FLOAT16, above=True, terms=14), FLOAT16)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(
    "family", ["normal", "ties", "equal", "spread_745", "masked", "two_columns", "copies_and_far", "opposite_maxima"]
)
def test_rounding_is_that_of_the_proven_enclosure(family, fmt):
    for row in FAMILIES[family][:4]:
        rounded = exact.round_row(row, fmt)
        for bits, enclosure in zip(rounded.bits, ball.enclose(row, 2000), strict=True):
            # Ends are rounded outwards to the working precision in force.
            with flint.ctx.workprec(2100):
                ends = [[int(part) for part in end.man_exp()] for end in (enclosure.lower(), enclosure.upper())]
            assert int(bits) in {exact.round_binary(m, e, fmt) for m, e in ends}


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("family", [f"subnormal_results_{name}" for name in FORMATS])
def test_float64_rounding_of_double_words_is_never_far_off(family, fmt):
    values = FAMILIES[family]
    reference = ball.softmax(values)
    for row, high, exponent in zip(values, reference.high, reference.exponent, strict=True):
        wanted = exact.round_row(row, fmt).bits.astype(np.int64)
        got = [
            exact.round_binary(Fraction(h).numerator, int(e) - Fraction(h).denominator.bit_length() + 1, fmt)
            for h, e in zip(high.tolist(), exponent, strict=True)
        ]
        assert np.abs(wanted - got).max() <= (1 if fmt is FLOAT64 else 0)


def test_equal_logits_are_rounded_from_the_fraction():
    for fmt in FORMATS.values():
        for copies in (1, 2, 3, 7, 1000):
            rounded = exact.round_row(np.full(copies, 1e8), fmt)
            # None of these fractions lies so near a tie that rounding to float64 first would matter.
            assert (rounded.bits == encode(np.array(1 / copies), fmt)).all()
            assert rounded.raises == 0
            assert exact.round_binary((1 << 200) // copies, -200, fmt) == rounded.bits[0]


def _groups(values, counts):
    empty = np.empty(0, dtype=np.intp)
    return Groups(np.array(values), np.array(counts), empty, empty)


def test_a_true_tie_goes_to_even_and_its_neighbours_do_not():
    # 2^-25 is half the least subnormal of float16.
    copies = 1 << 25
    assert exact.round_groups(_groups([0.0], [copies]), FLOAT16)[0] == [0]
    assert exact.round_groups(_groups([0.0], [copies - 1]), FLOAT16)[0] == [1]
    # Three times 2^-25 can't be 1/c; a hair of difference between two halves lifts one above the tie.
    lifted, _, raises = exact.round_groups(_groups([0.0, 5e-324], [copies // 2] * 2), FLOAT16)
    assert lifted == [0, 1]
    assert raises >= 4


def test_far_company_beyond_any_precision_is_decided_by_reasoning():
    # 1/c is the midpoint, and the far logit pushes the maxima below it by e^-1e300.
    bits, _, raises = exact.round_groups(_groups([-1e300, 0.0], [1, 1 << 25]), FLOAT16)
    assert bits == [0, 0]
    assert raises == 0
    # Without that knowledge the interval would straddle the tie; the other side of it differs for odd neighbours.
    assert exact._round_below_quotient(2, FLOAT16) == 0x3800
    assert exact.round_binary((1 << 60) + 1, -85, FLOAT16) == 1


@pytest.mark.parametrize(("fully_masked", "bits"), [("nan", 0x7E00), ("zero", 0)])
def test_special_rows_are_rounded_by_the_convention(fully_masked, bits):
    for row in SPECIAL[:4]:
        assert (exact.round_row(row, FLOAT16, fully_masked).bits == 0x7E00).all()
    assert (exact.round_row(SPECIAL[4], FLOAT16, fully_masked).bits == bits).all()
    assert exact.round_row(np.zeros(0), FLOAT16, fully_masked).bits.shape == (0,)


def test_round_binary_agrees_with_encode_everywhere():
    rng = np.random.default_rng(3)
    for fmt in FORMATS.values():
        magnitudes = rng.uniform(fmt.min_exponent - fmt.precision - 2, 0, 400)
        values = np.concatenate(
            (2.0**magnitudes, [fmt.least_subnormal, fmt.least_subnormal * 1.5, fmt.least_normal, 1.0])
        )
        values = values[values > 0]
        expected = encode(values, fmt)
        for value, bits in zip(values.tolist(), expected.tolist(), strict=True):
            numerator, denominator = value.as_integer_ratio()
            assert exact.round_binary(numerator, 1 - denominator.bit_length(), fmt) == bits


def test_global_precisions_are_left_alone():
    before = mpmath.mp.prec, flint.ctx.prec
    row = np.array([0.0, -1.0, 5e-324])
    exact.round_row(row, FLOAT64)
    exact.softmax(row[None])
    ball.softmax(row[None])
    ball.enclose(row, 999)
    assert (mpmath.mp.prec, flint.ctx.prec) == before


def test_groups_keep_every_column():
    row = np.array([1.0, -np.inf, 0.0, 1.0, -0.0])
    groups = group(row)
    assert groups.counts.tolist() == [2, 2]
    assert (groups.values[groups.member] == row[groups.columns]).all()
