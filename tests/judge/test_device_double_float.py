"""The device judge whose scan has no float64, under Triton's interpreter, held to the agreement test of the other scan.

A subset of ``test_device_judge``: one case per family, every planted fault, and the rows that are hard in
two float32.
"""

import math

import device_child
import double_float_child
import numpy as np
import pytest
from judge_helpers import hard, kinds, matrix, off_by_one_ulp, rounded
from test_device_judge import INF, NAN, PLANTS, THREE, in_turn, normal, one_case_per_family

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32
from softcheck.cases.case import Layout
from softcheck.contract import FindingKind
from softcheck.judge.device import scan, scan_double_float
from softcheck.judge.device.agreement import disagreements
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.trust import DistrustedError
from softcheck.judge.judge import STANDARD, judge
from softcheck.operations import bounds


@pytest.fixture(scope="module")
def child():
    with device_child.pool(interpret=True) as pool:
        pool.submit(double_float_child.in_double_float).result()
        yield pool


@pytest.fixture(scope="module")
def agree(child):
    """Judges on both sides, asserts that they agree, and returns the device's measurement."""

    def compared(bits, output, fmt, *, fully_masked="nan", **options):
        ours = child.submit(device_child.measure, bits, output, fmt.name, fully_masked=fully_masked, **options).result()
        assert disagreements(ours, judge(bits, output, fmt, fully_masked=fully_masked)) == []
        assert ours.judged_in == "double-float32"
        return ours

    return compared


@pytest.mark.parametrize("case", [c for c in one_case_per_family() if c.shape[1] not in (0, 2)], ids=lambda c: c.id)
def test_families(agree, case):
    bits = case.bits(5)
    output = rounded(bits, case.format, "zero")
    assert agree(bits, output, case.format, layout=case.layout, fully_masked="zero").violations == ()


@pytest.mark.parametrize(("fmt", "plant"), in_turn(PLANTS))
def test_planted_faults(agree, fmt, plant):
    bits = normal(fmt, 70)
    output = rounded(bits, fmt)
    change, expected = PLANTS[plant]
    change(output, fmt)
    assert kinds(agree(bits, output, fmt)) >= expected


@pytest.mark.parametrize("columns", [1, 3, 33, 1025])
def test_widths_and_a_fault_in_the_last_column(agree, columns):
    for fmt in (FLOAT16, FLOAT32):
        bits = normal(fmt, columns, 70 if columns < 9 else 3)
        output = rounded(bits, fmt)
        output[-1, -1] += 40
        found = agree(bits, output, fmt, layout=Layout(row_stride=columns + 5, offset=3), output_strided=True)
        assert (found.max_ulp.row, found.max_ulp.column) == (len(bits) - 1, columns - 1)


@pytest.mark.parametrize("fmt", THREE, ids=lambda f: f.name)
def test_figures_are_those_of_the_float64_scan(child, fmt):
    bits = normal(fmt, 64, 24)
    output = rounded(bits, fmt)
    output[::12, ::2] += 1
    (rows, passed, errors, largest), (rows64, passed64, errors64, largest64) = child.submit(
        double_float_child.scanned, bits, output, fmt.name
    ).result()
    assert (rows, passed) == (rows64, passed64)
    assert passed >= 20
    assert errors == pytest.approx(errors64, rel=1e-6)
    assert largest == pytest.approx(largest64, rel=1e-6)


@pytest.mark.parametrize("fmt", THREE, ids=lambda f: f.name)
def test_hard_rows(agree, child, fmt):
    bits = hard(fmt)
    right = rounded(bits, fmt)
    assert agree(bits, right, fmt).violations == ()
    for output in off_by_one_ulp(right):
        ours = child.submit(device_child.measure, bits, output, fmt.name).result()
        assert set(disagreements(ours, judge(bits, output, fmt))) <= {"histogram"}


def test_masked_logits_pass_where_outputs_are_zero(agree, child):
    for fmt in THREE:
        logits = np.random.default_rng(1).standard_normal((6, 40)) * 3
        logits[np.triu_indices(6, 30, 40)] = -INF
        bits = matrix(logits, fmt)
        output = rounded(bits, fmt)
        assert agree(bits, output, fmt).violations == ()
        assert child.submit(device_child.left, bits, output, fmt.name).result() != []
        (left, passed, *_), _ = child.submit(double_float_child.scanned, bits, output, fmt.name).result()
        assert (left, passed) == ([], 6)
        output[3, 38] = 1
        output[4, 39] = 1 << (fmt.width - 1)
        assert kinds(agree(bits, output, fmt)) == {FindingKind.MASKED_NOT_ZERO}


def test_specials(agree):
    rows = [[NAN, 0.0, 1.0], [INF, 0.0, 1.0], [-INF, 2.0, 1.0], [-INF, -INF, -INF], [-INF, 0.0, INF], [INF, INF, -INF]]
    for fmt in THREE:
        bits = matrix(rows, fmt)
        for convention in ("nan", "zero"):
            output = rounded(bits, fmt, convention)
            right = agree(bits, output, fmt, fully_masked=convention)
            assert (right.violations, right.special_rows) == ((), 5)
            output[[0, 1, 4], 2] = 3
            output[3, 1] = 2
            assert agree(bits, output, fmt, fully_masked=convention).special_mismatches == 4


def test_rows_in_doubt_are_judged_again(agree):
    # r is 1/2 but for 2^-101: no sum of two float32 tells on which side, and the ULP is another.
    bits = matrix([[0.0, 2.0**-100, -INF], [0.0, 1.0, 2.0]], FLOAT32)
    output = rounded(bits, FLOAT32)
    output[0, 0] += 1
    found = agree(bits, output, FLOAT32)
    assert found.rejudged_rows == 1
    assert found.max_ulp.value == pytest.approx(2.0)


@pytest.mark.parametrize("fault", ["right", "coefficient", "rests lost", "products' remainders lost"])
def test_faults_in_its_arithmetic_are_caught(child, fault):
    bits = normal(FLOAT32, 70)
    output = rounded(bits, FLOAT32)
    ours = child.submit(double_float_child.with_fault, bits, output, FLOAT32.name, fault).result()
    assert (disagreements(ours, judge(bits, output, FLOAT32)) != []) == (fault != "right")


@pytest.mark.parametrize(("fmt", "columns"), [(FLOAT16, 1), (FLOAT32, 1), (BFLOAT16, 3), (FLOAT32, 33)], ids=str)
def test_its_kernels_are_believed_where_they_are_right_alone(child, fmt, columns):
    bits = normal(fmt, columns, 3)
    judged = (device_child.trusted, bits, rounded(bits, fmt), fmt.name)
    assert child.submit(*judged).result().judged_in == "double-float32"
    # exp(0) is 1 whatever a coefficient is, so one column shows only what the table counts wrongly.
    fault = ("double_float._C3", 0.1667) if columns > 1 else ("bins._FIRST", 1013 * 64 - 4)
    with pytest.raises(DistrustedError, match=f"{fmt.name} rows of {columns} columns"):
        child.submit(*judged, constants=[fault]).result()


@pytest.mark.parametrize(("fault", "seen"), [("tolerant", "violations"), ("short", "elements")])
def test_judges_with_planted_faults_are_caught(child, fault, seen):
    bits = normal(FLOAT32)
    output = rounded(bits, FLOAT32)
    output[2] += 120
    ours = child.submit(device_child.measure, bits, output, FLOAT32.name, fault=fault).result()
    assert seen in disagreements(ours, judge(bits, output, FLOAT32))


def test_its_own_error_is_in_the_margin():
    for fmt in THREE:
        constants = Constants(fmt, bounds.model(STANDARD, fmt), 1024)
        own = 4 * scan_double_float.uncertainty(precise=fmt == FLOAT32) * 2.0**fmt.precision
        assert scan_double_float.margin(constants) == constants.margin(scan.degree(constants)) + own
        assert 0 < own < 2.0**-12
    assert math.log2(scan_double_float.uncertainty(precise=True)) < -42.6
