from fractions import Fraction

import mpmath
import numpy as np
import pytest
from oracle_families import FAMILIES, SPECIAL

from oracles import ball


def _exact(value):
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("family", ["normal", "ties", "spread_745", "masked", "equal", "subnormal_pair"])
def test_reference_is_consistent_with_a_much_narrower_enclosure(family):
    values = FAMILIES[family][:3]
    reference = ball.softmax(values)
    for i, row in enumerate(values):
        for j, enclosure in enumerate(ball.enclose(row, 400)):
            stated = (Fraction(reference.high[i, j]) + Fraction(reference.low[i, j])) * Fraction(2) ** int(
                reference.exponent[i, j]
            )
            bound = Fraction(reference.relative_error[i, j])
            low, high = _exact(enclosure.lower()), _exact(enclosure.upper())
            assert abs(stated - low) <= bound * low + (high - low)


def test_enclosures_of_a_row_contain_what_mpmath_computes():
    context = mpmath.mp.clone()
    context.prec = 300
    row = FAMILIES["normal"][0]
    terms = [context.exp(context.mpf(x)) for x in row.tolist()]
    total = context.fsum(terms)
    for term, enclosure in zip(terms, ball.enclose(row, 128), strict=True):
        share = term / total
        value = Fraction(int(share.man)) * Fraction(2) ** int(share.exp)
        assert _exact(enclosure.lower()) <= value <= _exact(enclosure.upper())


@pytest.mark.parametrize("fully_masked", ["nan", "zero"])
def test_special_rows(fully_masked):
    for row in SPECIAL[:4]:
        assert all(b.is_nan() for b in ball.enclose(row, fully_masked=fully_masked))
        assert ball.decimal(row, 1, fully_masked=fully_masked) == "nan"
    zero = fully_masked == "zero"
    assert [b.is_zero() for b in ball.enclose(SPECIAL[4], fully_masked=fully_masked)] == [zero] * 3
    assert ball.decimal(SPECIAL[4], 0, fully_masked=fully_masked) == ("0" if zero else "nan")
    assert ball.decimal(SPECIAL[5], 1) == "0"
    assert ball.enclose(np.zeros(0)) == []


@pytest.mark.parametrize("digits", [1, 5, 20, 60])
def test_decimals_are_those_of_mpmath(digits):
    context = mpmath.mp.clone()
    context.dps = 150
    for row in (FAMILIES["normal"][0][:9], FAMILIES["spread_745"][0], np.array([0.0, 1.0, -1e4])):
        terms = [context.exp(context.mpf(x) - max(row.tolist())) for x in row.tolist()]
        for column, term in enumerate(terms):
            got = context.mpf(ball.decimal(row, column, digits))
            exact = term / context.fsum(terms)
            unit = context.mpf(10) ** (int(context.floor(context.log10(exact))) - digits + 1)
            assert abs(got - exact) <= unit / 2


def test_decimals_at_the_edges():
    far = np.array([0.0, -1e18, -1e300])
    assert ball.decimal(far, 0) == "1.0000000000000000000"
    assert ball.decimal(far, 1, 5) == "2.2329e-434294481903251828"
    context = mpmath.mp.clone()
    context.dps = 400
    logarithm = context.mpf(-1e300) / context.ln(10) - context.log10(1 + context.exp(-1e18))
    exponent = int(context.floor(logarithm))
    assert ball.decimal(far, 2, 3) == f"{context.nstr(10 ** (logarithm - exponent), 3, strip_zeros=False)}e{exponent}"
    assert ball.decimal(np.zeros(3), 2, 4) == "0.3333"
    # 1/8 = 0.125 is a tie at two digits; so is what lies below it by less than any precision shows.
    assert ball.decimal(np.zeros(8), 0, 2) == "0.12"
    assert ball.decimal(np.array([0.0] * 8 + [-1e300]), 0, 2) == "0.12"
    # 1/1024 = 9.765625e-4 is a tie at six digits.
    assert ball.decimal(np.zeros(1024), 0, 6) == "0.000976562"
    assert ball.decimal(np.array([0.0] * 1024 + [-1e300]), 0, 6) == "0.000976562"
    with pytest.raises(IndexError, match="column 3"):
        ball.decimal(np.zeros(3), 3)
