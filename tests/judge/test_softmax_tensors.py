"""The judge on tensors against the numpy judge on softmax: right outputs, planted faults, every layout."""

import math

import numpy as np
import pytest
import torch
from agreement import disagreements
from judge_helpers import hard, inconsistencies, kinds, matrix, off_by_one_ulp, rounded

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, decode, encode
from softcheck.calling.call import place, to_tensor
from softcheck.cases.case import Layout
from softcheck.cases.corpus import default_corpora, load
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.judge.tensors import judge_tensors, passing
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.softmax import SOFTMAX

THREE = (FLOAT16, BFLOAT16, FLOAT32)
INF, NAN = math.inf, math.nan
NEAR_TWO = [
    [0, 0xC0B10F86, 0xBB81CE65],
    [0, 0xBF415F66, 0xBF2273AB],
    [0, 0xC0E18262, 0xBA642172],
    [0, 0xC0E36ABC, 0xBA56EC4D],
    [0, 0xC0E515FA, 0xBA4BFF40],
    [0, 0xC0BFBD2E, 0xBB23FBA3],
    [0, 0xC0F2A47D, 0xBA0587A2],
    [0, 0xC0ED3E8D, 0xBA1E1305],
    [0, 0xC0DCB70D, 0xBA8482B5],
    [0, 0xC0D1ABF1, 0xBABB2997],
    [0, 0xC0DE7D2E, 0xBA7AB8F5],
    [0, 0xC0CFC8CC, 0xBAC68A9E],
    [0, 0xC0D6A409, 0xBAA03A06],
    [0, 0xC0E63E14, 0xBA44C0A4],
    [0, 0xC0E2AC14, 0xBA5BFC60],
    [0, 0xC0CC5386, 0xBADD37E4],
]
"""float32 bits: exponentials of 1 and of two others that sum to 1 but for 2^-60 to 2^-52."""
ROWS = 5
CPU = torch.device("cpu")


def measure(bits, output, fmt, *, layout=None, output_strided=False, device=CPU, **options):
    x = place(bits, fmt, layout or Layout(), device).view
    theirs = Layout(row_stride=1, column_stride=len(bits), offset=1) if output_strided else Layout()
    return judge_tensors(x, place(output, fmt, theirs, device).view, fmt, operation=SOFTMAX, **options)


def left(bits, output, fmt, fully_masked="nan"):
    """The rows that are left to the numpy judge."""
    x, y = to_tensor(bits, fmt, CPU), to_tensor(output, fmt, CPU)
    return np.flatnonzero(~passing(x, y, fmt, operation=SOFTMAX, fully_masked=fully_masked).numpy()).tolist()


def agree(bits, output, fmt, *, fully_masked="nan", **options):
    """Judges on both sides, asserts that they agree, and returns the measurement on tensors."""
    ours = measure(bits, output, fmt, fully_masked=fully_masked, **options)
    contract = {name: value for name, value in options.items() if name == "arithmetic"}
    theirs = judge(bits, output, fmt, fully_masked=fully_masked, **contract)
    assert disagreements(ours, theirs) == [], (ours, theirs)
    assert inconsistencies(ours) == inconsistencies(theirs) == [], (ours, theirs)
    return ours


def one_case_per_family():
    """For each family of the corpora, a case of at most 1200 columns, in another dtype from family to family."""
    chosen = {}
    for case in load(default_corpora()):
        if case.dtype != "float64" and case.shape[1] <= 1200:
            chosen.setdefault(case.family, {}).setdefault(case.dtype, case)
    return [list(by_dtype.values())[at % len(by_dtype)] for at, by_dtype in enumerate(chosen.values())]


@pytest.mark.parametrize("case", one_case_per_family(), ids=lambda c: c.id)
def test_every_family(case):
    bits = case.bits(ROWS)
    output = rounded(bits, case.format, "zero")
    found = agree(bits, output, case.format, layout=case.layout, fully_masked="zero")
    assert found.violations == ()


def normal(fmt, columns=300, rows=ROWS):
    return matrix(np.random.default_rng(columns).standard_normal((rows, columns)) * 2, fmt)


def off_by(ulps, column):
    def plant(output, fmt):
        output[2, column] += fmt.storage.type(ulps)

    return plant


def scaled(output, fmt):
    output[1] = encode(decode(output[1], fmt) * (1 + 2.0 ** (6 - fmt.precision)), fmt)


def zero(output, fmt):
    output[:] = 0


def swapped(output, fmt):
    output[3, [0, 1]] = output[3, [1, 0]]


def negative(output, fmt):
    output[0, 7] |= fmt.storage.type(1 << (fmt.width - 1))


def put(value):
    def plant(output, fmt):
        output[4, -1] = encode(np.array(value), fmt)

    return plant


def cancelling(output, fmt):
    # Errors of 2 and more, whose float32 figures come out as next to nothing, in a sum that stays what it was.
    least = np.argsort(decode(output[1], fmt))[:2]
    output[1, least] = encode(np.array([4.0, -4.0]), fmt)


PLANTS = {
    "first column": (off_by(200, 0), {FindingKind.ULP_EXCEEDS_BOUND}),
    "last column": (off_by(200, -1), {FindingKind.ULP_EXCEEDS_BOUND}),
    "row scaled": (scaled, {FindingKind.SUM_VIOLATION}),
    "zero": (zero, {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION}),
    "swapped": (swapped, {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.ORDER_VIOLATION}),
    "negative": (negative, {FindingKind.OUT_OF_RANGE}),
    "above one": (put(1.5), {FindingKind.OUT_OF_RANGE, FindingKind.ULP_EXCEEDS_BOUND}),
    "far above one": (put(4.0), {FindingKind.OUT_OF_RANGE, FindingKind.SUM_VIOLATION}),
    "cancelling": (cancelling, {FindingKind.OUT_OF_RANGE, FindingKind.ULP_EXCEEDS_BOUND}),
    "NaN": (put(NAN), {FindingKind.NAN_MISMATCH}),
    "inf": (put(INF), {FindingKind.INF_MISMATCH}),
}


def in_turn(values):
    """Pairs of a format and a value, in which each value has one format, another one from value to value."""
    return [pytest.param(THREE[at % 3], value, id=f"{THREE[at % 3].name}-{value}") for at, value in enumerate(values)]


@pytest.mark.parametrize(("fmt", "plant"), in_turn(PLANTS))
def test_planted_faults(fmt, plant):
    bits = normal(fmt, {FLOAT16: 300, BFLOAT16: 70, FLOAT32: 33}[fmt])
    output = rounded(bits, fmt)
    change, expected = PLANTS[plant]
    change(output, fmt)
    assert kinds(agree(bits, output, fmt)) >= expected


def test_specials_and_masks():
    rows = [[NAN, 0.0, 1.0], [INF, 0.0, 1.0], [-INF, 2.0, 1.0], [-INF, -INF, -INF], [-INF, 0.0, INF], [0.0, 1.0, 2.0]]
    for fmt in THREE:
        bits = matrix(rows, fmt)
        for convention in ("nan", "zero"):
            output = rounded(bits, fmt, convention)
            right = agree(bits, output, fmt, fully_masked=convention)
            assert right.violations == ()
            assert (right.special_rows, right.fully_masked_rows) == (4, 1)
            output[2, 0] = 1
            output[3, 1] = 2
            output[0, 2] = 3
            wrong = agree(bits, output, fmt, fully_masked=convention)
            assert kinds(wrong) >= {FindingKind.MASKED_NOT_ZERO, FindingKind.NAN_MISMATCH}
            assert wrong.special_mismatches == 2


@pytest.mark.parametrize(("fmt", "columns"), [(FLOAT16, 600), (BFLOAT16, 1024), (FLOAT32, 600)], ids=str)
def test_specials_masks_and_negative_logits_in_wide_rows(fmt, columns):
    values = np.random.default_rng(columns).standard_normal((9, columns))
    values[1, 3], values[2, 3], values[3, 3], values[4, 3] = NAN, NAN, INF, -INF
    values[5:] -= 20
    values[6, 3], values[7, 3], values[8, :] = NAN, -INF, -7
    bits = matrix(values, fmt)
    # One NaN of either sign.
    bits[2, 3] |= fmt.storage.type(1 << (fmt.width - 1))
    output = rounded(bits, fmt)
    assert agree(bits, output, fmt).violations == ()
    wrong = output.copy()
    wrong[[1, 2, 3, 6]] = output[0]
    wrong[[4, 7], 3] = fmt.storage.type(1)
    found = agree(bits, wrong, fmt)
    assert kinds(found) >= {FindingKind.NAN_MISMATCH, FindingKind.MASKED_NOT_ZERO}


@pytest.mark.parametrize("fmt", [BFLOAT16, FLOAT32], ids=lambda f: f.name)
def test_peaks_too_large_for_a_logit_to_be_put_near_them(fmt):
    values = np.random.default_rng(0).standard_normal((5, 600)) * 8
    values += np.array([2.0**25, -(2.0**26), 2.0**27, -(2.0**60), 3e38])[:, None]
    bits = matrix(values, fmt)
    output = rounded(bits, fmt)
    assert agree(bits, output, fmt).violations == ()
    output[:, 7] += 50
    agree(bits, output, fmt)


def test_flushed_results_that_are_half_an_ulp_off_but_for_little_are_counted():
    columns = 3000
    # r of the last column is 2^-25 (1 + t), t small: 0 is within its bound, but flushed.
    values = decode(matrix(np.random.default_rng(0).standard_normal((2500, columns)), FLOAT16), FLOAT16)
    values[:, -1] = 0
    total = np.exp(values).sum(axis=1) - 1
    least = 2.0**-25 * total / (1 - 2.0**-25)
    values[:, -1] = np.ceil(np.log(least) * 2**7) / 2**7
    t = np.exp(values[:, -1]) / least - 1
    # Nearer, r would be next to a power of two.
    t[t < 2.0**-20] = 1
    assert t.min() < 8e-6
    bits = matrix(values[[t.argmin(), 0]], FLOAT16)
    right = rounded(bits, FLOAT16)
    assert right[0, -1] == 1
    output = right.copy()
    output[0, -1] = 0
    found = agree(bits, output, FLOAT16)
    assert (found.flushed, found.violations) == (1, ())


@pytest.mark.parametrize(
    "layout",
    [
        Layout(row_stride=1, column_stride=ROWS),
        Layout(row_stride=75, offset=3),
        Layout(row_stride=300, column_stride=3),
    ],
    ids=str,
)
def test_layouts(layout):
    bits = normal(FLOAT16, 70)
    output = rounded(bits, FLOAT16)
    output[2, 69] += 3
    found = agree(bits, output, FLOAT16, layout=layout, output_strided=True)
    assert found.max_ulp is not None
    assert (found.max_ulp.row, found.max_ulp.column) == (2, 69)


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 33, 512, 1025, 3000])
def test_widths(columns):
    for fmt in (FLOAT16, FLOAT32) if columns < 1000 else (FLOAT32,):
        bits = normal(fmt, columns, 70 if columns < 9 else 3)
        output = rounded(bits, fmt)
        assert agree(bits, output, fmt).violations == ()
        output[-1, -1] += 40
        assert agree(bits, output, fmt).max_ulp.row == len(bits) - 1


@pytest.mark.parametrize(
    ("fmt", "columns"),
    [(FLOAT16, 9), (BFLOAT16, 9), (FLOAT32, 9), (FLOAT16, 600), (FLOAT32, 600), (FLOAT32, 4096)],
    ids=str,
)
def test_logits_far_below_many_maxima(fmt, columns):
    """Every part of an element's arithmetic stays in range for the least r, on both sides of the kernels' clamp."""
    far = np.repeat(np.linspace(55, 130, 6)[:, None], columns, axis=1)
    far[:, 2:] = 0.0
    far[:, 0] += 0.25
    bits = matrix(-far, fmt)
    output = rounded(bits, fmt)
    assert agree(bits, output, fmt).violations == ()
    if fmt == FLOAT32:
        # In narrower formats the sums of so many equal roundings are left to a closer look.
        assert left(bits, output, fmt) == []


@pytest.mark.parametrize(("fmt", "far"), in_turn([30.0, 60.0, 90.0, 110.0, 140.0, 100.0]))
def test_the_maximums_ulp_is_that_below_one_where_all_others_vanish_beside_it(fmt, far):
    logits = np.full((2, 600), -far)
    logits[:, 5] = 0.0
    bits = matrix(logits, fmt)
    output = decode(rounded(bits, fmt), fmt).copy()
    output[:, 5] = [1 - 2.0**-fmt.precision, 1.0]
    agree(bits, encode(output, fmt), fmt)


@pytest.mark.parametrize(("columns", "far"), [(300, 9.140625), (301, 9.1328125), (300, 8.46875), (300, 9.1171875)])
def test_the_mean_of_small_errors_agrees_where_the_exponential_errs_the_same_way_in_all(columns, far):
    """Of float16, whose polynomial is the shortest: one maximum, and all others at one distance, where it errs the most."""
    logits = np.full((1, columns), -far)
    logits[:, 5] = 0.0
    bits = matrix(logits, FLOAT16)
    assert agree(bits, rounded(bits, FLOAT16), FLOAT16).ulp_sum > 0


def test_flushed_results():
    row = np.concatenate([[0.0], np.linspace(-5, -20, 40)])
    bits = matrix([row, row / 2], FLOAT16)
    output = rounded(bits, FLOAT16)
    output[decode(output, FLOAT16) < 2.0**-14] = 0
    found = agree(bits, output, FLOAT16)
    assert found.flushed > 5
    assert found.max_ulp_ftz < 2 < found.max_ulp.value


@pytest.mark.parametrize("fmt", THREE, ids=lambda f: f.name)
@pytest.mark.parametrize("columns", [2, 3])
def test_results_below_float64s_range_are_one_ulp_from_the_least_normal_number(fmt, columns):
    rows = [[0.0, far, -INF][:columns] for far in (-100.0, -800.0, -INF)]
    bits = matrix(rows, fmt)
    output = rounded(bits, fmt)
    output[:, 1] = encode(np.array(fmt.least_normal), fmt)
    for row in ((0,), (1,), (2,), (0, 1, 2)):
        assert agree(bits[list(row)], output[list(row)], fmt).max_ulp_ftz == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("step", [-1, 1])
def test_sums_next_to_a_power_of_two_leave_the_maximums_side_to_be_decided(step):
    # 64 maxima, and others whose exponentials sum to 64 but for 2^-50 or so, more or less: float64 adds up to either side of 128.
    rng = np.random.default_rng(0)
    bits = np.array([rng.permutation(rng.choice(NEAR_TWO, 64).ravel()) for _ in range(8)], np.uint32)
    output = rounded(bits, FLOAT32)
    output[bits == 0] = encode(np.array(1 / 128), FLOAT32) + np.uint32(step % 2**32)
    agree(bits, output, FLOAT32)


@pytest.mark.parametrize("columns", [2, 40])
def test_the_largest_share_is_found_among_shares_beyond_float32(columns):
    # As of outputs that are whatever the memory held: the first row's is the largest output, the second's the largest share.
    logits = np.full((3, columns), -95.0)
    logits[:, 0] = 0
    logits[0, 1] = -10
    bits = matrix(logits, FLOAT32)
    output = rounded(bits, FLOAT32)
    output[:, 1] = encode(np.array([3e38, 1e37, 1e36]), FLOAT32)
    found = measure(bits, output, FLOAT32, most_elements=2)
    # Order is compared in the rows that show something else.
    assert set(disagreements(found, judge(bits, output, FLOAT32))) <= {"violations"}
    assert found.rejudged_rows == 1
    assert found.max_bound_share.row == 1
    assert found.max_bound_share.value > 2.0**128


def test_errors_beyond_the_table_of_counts_are_counted():
    # Where results may be flushed, 2^23 ULPs are within the bound, and the scan's table ends before.
    bits = matrix([[0.0, -88.0, -1.0], [0.0, -88.0, -2.0]], FLOAT32)
    output = rounded(bits, FLOAT32)
    output[0, 1] += 7 << 20
    flushing = Arithmetic(flush_to_zero=True)
    found = agree(bits, output, FLOAT32, arithmetic=flushing)
    assert found.max_ulp.value > 2**22
    assert found.violations == ()
    assert agree(bits[:, :2], output[:, :2], FLOAT32, arithmetic=flushing).max_ulp.value > 2**22


def test_many_broken_rows_are_counted_on_the_device():
    bits = normal(FLOAT16, 20, 200)
    output = rounded(bits, FLOAT16)
    output[:, 3] += 50
    output[:, 5] |= 0x8000
    ours = measure(bits, output, FLOAT16, most_elements=10 * 20)
    theirs = judge(bits, output, FLOAT16)
    assert ours.rejudged_rows == 10
    assert set(disagreements(ours, theirs)) <= {"violations"}
    counts = {v.kind: v.count for v in theirs.violations}
    for violation in ours.violations:
        if violation.kind is FindingKind.ORDER_VIOLATION:
            assert 0 < violation.count <= counts[violation.kind]
        else:
            assert violation.count == counts[violation.kind]
        assert violation.message.startswith(f"row {violation.row}")
    assert {v.kind for v in ours.violations} == set(counts)


def test_rows_in_doubt_are_judged_again():
    # r is 1/2 but for 2^-101: float64 does not tell on which side, and the ULP is another.
    bits = matrix([[0.0, 2.0**-100, -INF], [0.0, 1.0, 2.0]], FLOAT32)
    output = rounded(bits, FLOAT32)
    output[0, 0] += 1
    found = agree(bits, output, FLOAT32)
    assert found.rejudged_rows == 1
    assert found.max_ulp.value == pytest.approx(2.0)


def test_ordinary_rows_pass_the_scan():
    for fmt in THREE:
        bits = normal(fmt, 256, 20)
        assert len(left(bits, rounded(bits, fmt), fmt)) <= 2


def combinations(fmt, columns):
    """Rows of numbers of all sizes, specials among them: all pairs, or some wider rows."""
    least = fmt.least_subnormal
    special = [0.0, -0.0, NAN, INF, -INF, least, -least, fmt.least_normal, 2.0**-20, 1.0]
    numbers = [*special, 1.0 + 2.0 ** (1 - fmt.precision), -9.5, 10.1, 16.4, 37.0, 88.0, -90.5, 104.0, 6e4, -6e4]
    if columns == 2:
        return matrix([[a, b] for a in numbers for b in numbers], fmt)
    rng = np.random.default_rng(columns)
    rows = rng.choice(numbers, (240, columns), p=rng.dirichlet(np.full(len(numbers), 0.5)))
    rows[:40] = np.where(np.isnan(rows[:40]), 0.0, rows[:40])
    rows[40:44] = -INF
    # Copies of the maximum, with others that vanish beside them or all but vanish.
    for row, far in zip(rows[44:80], np.repeat([17.0, 20.5, 37.0, 90.0, 104.0, INF], 6), strict=True):
        row[:] = -far
        row[: rng.integers(1, columns)] = 0
    return matrix(rows, fmt)


NARROW = [2, 3, 4, 7, 16]
"""Columns of rows whose scans know the conventions for special rows."""


@pytest.mark.parametrize(("fmt", "columns"), in_turn(NARROW * 2))
@pytest.mark.parametrize("convention", ["nan", "zero"])
def test_every_kind_of_narrow_row_passes(fmt, convention, columns):
    bits = combinations(fmt, columns)
    output = rounded(bits, fmt, convention)
    found = agree(bits, output, fmt, fully_masked=convention)
    assert found.violations == ()
    assert columns > 2 or found.rejudged_rows == 0
    assert found.fully_masked_rows >= 1
    rows = left(bits, output, fmt, convention)
    # In wider rows many differences are too small for the side of a power of two to be known.
    values = decode(bits, fmt)
    special = np.isnan(values).any(axis=1) | (values.max(axis=1) == INF) | (values.max(axis=1) == -INF)
    assert not special[rows].any()
    assert special.sum() > 5


@pytest.mark.parametrize(("fmt", "columns"), in_turn(NARROW * 2))
def test_faults_in_narrow_rows(fmt, columns):
    # Few enough that the numpy judge describes them all.
    bits = combinations(fmt, columns)[::2]
    right = rounded(bits, fmt, "zero")
    output = right.copy()
    values, answers = decode(bits, fmt), decode(right, fmt)
    # One fault to a row, of the kind that its row number gives: another element, far off, negative, NaN, infinite, 0, 1.
    for row in range(len(bits)):
        column, kind = row % columns, row % 7
        if kind == 0:
            output[row] = output[row, ::-1]
        elif kind == 1:
            output[row, column] ^= fmt.storage.type(1 << (fmt.precision - 2))
        elif kind == 2:
            output[row, column] |= fmt.storage.type(1 << (fmt.width - 1))
        else:
            output[row, column] = encode(np.array((NAN, INF, 0.0, 1.0)[kind - 3]), fmt)
    agree(bits, output, fmt, fully_masked="zero")
    rows = set(left(bits, output, fmt, "zero"))
    same = (output == right) | (np.isnan(decode(output, fmt)) & np.isnan(answers))
    # A sign on a zero is no fault.
    same |= (decode(output, fmt) == 0) & (answers == 0)
    assert np.isnan(values).any()
    assert {int(row) for row in np.flatnonzero(~same.all(axis=1))} <= rows


def test_empty_and_float64_inputs():
    for shape in ((0, 5), (3, 0)):
        assert agree(np.zeros(shape, np.uint16), np.zeros(shape, np.uint16), FLOAT16).elements == 0
    bits = normal(FLOAT64, 9)
    assert agree(bits, rounded(bits, FLOAT64), FLOAT64).elements == bits.size


def test_outputs_of_another_shape_are_refused():
    bits = normal(FLOAT16, 9)
    with pytest.raises(UsageError, match="wrong_shape"):
        measure(bits, bits[:, :8], FLOAT16)


@pytest.mark.parametrize("fmt", THREE, ids=lambda f: f.name)
def test_the_unit_of_an_error_is_right_next_to_powers_of_two(fmt):
    bits = hard(fmt)
    right = rounded(bits, fmt)
    assert agree(bits, right, fmt).violations == ()
    for output in off_by_one_ulp(right):
        ours = measure(bits, output, fmt)
        assert set(disagreements(ours, judge(bits, output, fmt))) <= {"histogram"}
