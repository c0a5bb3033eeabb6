"""The elements around a witness: bits of the case, and exact values, errors and bounds found here by fractions and Arb."""

import math
from fractions import Fraction

import numpy as np
import pytest
from judge_helpers import exact_ulp, matrix, rounded, violation

from oracles import ball
from oracles.formats import FLOAT16, FLOAT32, FORMATS, decode
from softcheck.contract import FindingKind, Surroundings
from softcheck.judge.judge import STANDARD, judge, reference
from softcheck.judge.tally import WIDEST_ROW
from softcheck.operations import bounds, ulp
from softcheck.operations.arithmetic import model
from softcheck.operations.registry import operation


def around(found: object) -> Surroundings:
    assert isinstance(found, Surroundings)
    return found


@pytest.mark.parametrize("fmt", list(FORMATS.values()), ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(("column", "first"), [(0, 0), (3, 0), (10, 6), (18, 11), (19, 11)])
def test_figures_are_those_of_the_elements(fmt, column, first):
    bits = matrix(np.random.default_rng(2).standard_normal((3, 20)) * 3, fmt)
    output = rounded(bits, fmt)
    output[1, column] += np.array(900).astype(fmt.storage)
    found = violation(judge(bits, output, fmt), FindingKind.ULP_EXCEEDS_BOUND)
    shown = around(found.around)
    columns = range(first, first + 9)
    assert (found.column, shown.first_column) == (column, first)
    for text, expected in ((shown.inputs, bits), (shown.outputs, output)):
        assert [int(word, 16) for word in text.split()] == [int(expected[1, c]) for c in columns]
    assert [int(word, 16) for word in (shown.row or "").split()] == bits[1].tolist()
    logits = decode(bits, fmt)
    allowed = bounds.bounds(
        logits, ulp.scaled(reference(logits, fmt), fmt), reference(logits, fmt).values, model(STANDARD, fmt)
    )
    texts = zip(columns, shown.exact.split(), shown.ulps.split(), shown.bounds.split(), strict=True)
    for c, exact, error, bound in texts:
        mantissa, exponent = ball.enclose(logits[1], 200)[c].mid().man_exp()
        wanted = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        assert abs(Fraction(exact) - wanted) <= wanted * Fraction(10) ** -(int(fmt.precision * 0.3) + 3)
        value = Fraction(float(decode(output[1:2, c : c + 1], fmt)[0, 0]))
        assert float(error) == pytest.approx(float(abs(value - wanted) / exact_ulp(wanted, fmt)), rel=1e-5, abs=1e-6)
        assert float(bound) == pytest.approx(float(allowed.elements[1, c]), rel=1e-5)


def test_what_an_element_lacks_is_a_dash():
    bits = matrix([[0.0, -math.inf, 1.0], [math.nan, 0.0, 0.0]], FLOAT16)
    output = matrix([[0.25, 0.5, math.nan], [0.0, math.nan, math.nan]], FLOAT16)
    measured = judge(bits, output, FLOAT16)
    masked = around(violation(measured, FindingKind.MASKED_NOT_ZERO).around)
    assert (masked.exact.split()[1], masked.bounds.split()[1], masked.ulps.split()[2]) == ("0", "-", "-")
    assert around(violation(measured, FindingKind.NAN_MISMATCH).around).exact.split()[0] != "0"


def test_a_sum_is_shown_at_its_worst_element():
    bits = matrix(np.zeros((2, 50)), FLOAT16)
    output = rounded(bits, FLOAT16)
    output[1, 40] *= 2
    found = violation(judge(bits, output, FLOAT16), FindingKind.SUM_VIOLATION)
    assert found.column is None
    assert around(found.around).first_column <= 40 < around(found.around).first_column + 9


def test_a_result_below_float64s_range_is_not_called_zero():
    bits = matrix([[0.0, -2000.0, -math.inf]], FLOAT16)
    output = matrix([[0.5, 0.0, 0.0]], FLOAT16)
    shown = around(violation(judge(bits, output, FLOAT16), FindingKind.ULP_EXCEEDS_BOUND).around)
    assert shown.exact.split() == ["1", "<1e-300", "0"]


def test_a_wide_row_is_not_kept():
    for columns, kept in ((WIDEST_ROW, True), (WIDEST_ROW + 1, False)):
        bits = matrix(np.zeros((1, columns)), FLOAT16)
        output = rounded(bits, FLOAT16)
        output[0, 5] *= 2
        found = violation(judge(bits, output, FLOAT16), FindingKind.ULP_EXCEEDS_BOUND)
        assert (around(found.around).row is not None) is kept


@pytest.mark.parametrize("output_fmt", [FLOAT16, FLOAT32], ids=lambda fmt: fmt.name)
def test_one_answer_for_a_row_stands_alone(output_fmt):
    bits = matrix([[0.0, 1.0, -2.0], [0.5, 0.5, 3.0]], FLOAT16)
    exact = [math.log(sum(math.exp(x) for x in row)) for row in decode(bits, FLOAT16).tolist()]
    output = matrix([[exact[0]], [exact[1] + 0.5]], output_fmt)
    measured = judge(bits, output, FLOAT16, operation=operation("logsumexp"), with_peaks=True)
    assert measured.by_distance == measured.by_column == {}
    found = violation(measured, FindingKind.ULP_EXCEEDS_BOUND)
    shown = around(found.around)
    assert (found.row, shown.inputs, shown.outputs) == (1, "", f"{int(output[1, 0]):0{output_fmt.hex_digits}x}")
    assert float(shown.exact) == pytest.approx(exact[1], rel=1e-8)
    assert [int(word, 16) for word in (shown.row or "").split()] == bits[1].tolist()
