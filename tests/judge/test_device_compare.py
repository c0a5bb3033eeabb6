"""The generic comparer on the device, by Triton's interpreter and by numpy, held to the numpy judge."""

import math

import device_child
import numpy as np
import pytest
from judge_helpers import matrix, rounded

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, encode
from softcheck.errors import UsageError
from softcheck.judge.device import builtin_rows
from softcheck.judge.judge import judge

INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def child():
    with device_child.pool(interpret=True) as pool:
        yield pool


def agree(found, judged):
    """Asserts that a comparison has the numpy judge's figures, masked elements left out of shares."""
    assert found.elements == judged.elements
    assert found.error.value == pytest.approx(judged.max_ulp.value, rel=1e-6, abs=1e-6)
    assert found.error_sum == pytest.approx(judged.ulp_sum, rel=1e-6)
    assert found.share.value == pytest.approx(judged.max_bound_share.value, rel=1e-6)
    bins = found.histogram.keys() | judged.histogram.keys()
    assert sum(abs(found.histogram.get(b, 0) - judged.histogram.get(b, 0)) for b in bins) <= 2


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
@pytest.mark.parametrize("columns", [3, 40, 600])
def test_figures_are_those_of_the_numpy_judge_on_the_builtin_rows(child, fmt, columns):
    logits = builtin_rows.rows(fmt, columns)
    right = builtin_rows.right(logits, fmt, "nan")
    for found in child.submit(device_child.comparisons, logits, right, fmt.name).result():
        agree(found, judge(logits, right, fmt))
        assert (found.exceeding, found.nan_mismatches, found.inf_mismatches) == (0, 0, 0)
    wrong = builtin_rows.wrong(right, fmt)
    wrong[7] = right[7]
    by_kernel, by_numpy = child.submit(device_child.comparisons, logits, wrong, fmt.name).result()
    judged = judge(logits, wrong, fmt)
    agree(by_kernel, judged)
    agree(by_numpy, judged)
    assert by_kernel.exceeding == by_numpy.exceeding > 0
    assert (by_kernel.nan_mismatches, by_kernel.nan_mismatch) == (by_numpy.nan_mismatches, by_numpy.nan_mismatch)
    assert (by_kernel.inf_mismatches, by_kernel.inf_mismatch) == (by_numpy.inf_mismatches, 8 * columns)
    assert by_kernel.error.index == judged.max_ulp.row * columns + judged.max_ulp.column


def test_a_masked_element_has_no_limit_but_zero(child):
    bits = matrix([[0.0, -INF, 1.0]], FLOAT32)
    output = rounded(bits, FLOAT32)
    output[0, 1] = 1
    for found in child.submit(device_child.comparisons, bits, output, "float32").result():
        assert (found.share.value, found.share.index, found.exceeding) == (INF, 1, 1)


@pytest.mark.parametrize("fmt", [FLOAT16, FLOAT32], ids=lambda f: f.name)
def test_signed_infinite_and_scaled_values(child, fmt):
    exact = np.array([-1.5, INF, -INF, NAN, 0.25, 1e300, -1e300, 3.0, INF, 0.0])
    output = encode(np.array([-1.5, INF, INF, NAN, NAN, INF, INF, 3.0, 1.0, 0.0]), fmt)
    output[0] += 3
    limits = np.full(len(exact), 2.0)
    for found in child.submit(device_child.compared, output, exact, limits, fmt.name).result():
        assert (found.elements, found.error.value, found.error.index) == (3, 3.0, 0)
        assert (found.share.value, found.exceeding) == (1.5, 1)
        assert (found.nan_mismatches, found.nan_mismatch) == (1, 4)
        assert (found.inf_mismatches, found.inf_mismatch) == (3, 2)
        assert sum(found.histogram.values()) == 3
    scale = np.full(len(exact), 8.0)
    for found in child.submit(
        device_child.compared, output, exact, limits.astype(np.float32), fmt.name, scale
    ).result():
        # An ULP of 8 is eight of 1.5's.
        assert found.error.value == 3 / 8


def test_errors_beyond_the_table_and_many_elements(child):
    rng = np.random.default_rng(0)
    exact = rng.uniform(0.5, 2.0, 5000)
    output = encode(exact, FLOAT32)
    output[4321] = encode(np.array(1e6), FLOAT32)
    by_kernel, by_numpy = child.submit(device_child.compared, output, exact, np.full(5000, 0.5), "float32").result()
    assert by_kernel.histogram == by_numpy.histogram
    assert by_kernel.error == by_numpy.error
    assert by_kernel.error.index == 4321
    assert by_kernel.exceeding == by_numpy.exceeding == 1


def test_nothing_is_compared_where_nothing_is_finite(child):
    output = encode(np.full(3, NAN), FLOAT16)
    for found in child.submit(device_child.compared, output, np.full(3, NAN), np.ones(3), "float16").result():
        assert (found.elements, found.error, found.share, found.histogram) == (0, None, None, {})


def test_a_comparer_with_another_ulp_is_caught(child):
    logits = builtin_rows.rows(FLOAT16, 40)
    right = builtin_rows.right(logits, FLOAT16, "nan")
    faulty = [("softcheck.judge.device.compare.binade", device_child.lower_binade)]
    by_kernel, by_numpy = child.submit(device_child.comparisons, logits, right, "float16", faulty).result()
    assert by_kernel.error.value == pytest.approx(2 * by_numpy.error.value)


def test_other_shapes_and_formats_are_refused(child):
    ones = np.ones(3)
    with pytest.raises(UsageError, match=r"limits is torch.float64 \[2\] on cpu, expected torch.float64 \[3\]"):
        child.submit(device_child.compared, encode(ones, FLOAT16), ones, np.ones(2), "float16").result()
    with pytest.raises(UsageError, match="float64 outputs need exact values of more precision"):
        child.submit(device_child.compared, encode(ones, FLOAT64), ones, ones, "float64").result()
