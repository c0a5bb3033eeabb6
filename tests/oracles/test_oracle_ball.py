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
    zero = fully_masked == "zero"
    assert [b.is_zero() for b in ball.enclose(SPECIAL[4], fully_masked=fully_masked)] == [zero] * 3
    assert ball.enclose(np.zeros(0)) == []
