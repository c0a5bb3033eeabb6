"""Kernels judge the built-in rows before they are believed: right ones are, and whatever is planted in them shows."""

import device_child
import numpy as np
import pytest
from judge_helpers import kinds, matrix, rounded

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, decode
from softcheck.contract import FindingKind
from softcheck.judge.device import builtin_rows
from softcheck.judge.device.agreement import differing, without_order
from softcheck.judge.device.trust import DistrustedError
from softcheck.judge.judge import judge


@pytest.fixture(scope="module")
def child():
    with device_child.pool(interpret=True) as pool:
        yield pool


def some(fmt, columns):
    bits = matrix(np.random.default_rng(1).standard_normal((3, columns)), fmt)
    return bits, rounded(bits, fmt)


@pytest.mark.parametrize(
    ("fmt", "columns", "convention"),
    [
        (FLOAT16, 1, "zero"),
        (FLOAT32, 1, "nan"),
        (FLOAT16, 2, "nan"),
        (FLOAT32, 2, "zero"),
        (BFLOAT16, 2, "nan"),
        (FLOAT16, 3, "zero"),
        (BFLOAT16, 8, "nan"),
        (FLOAT32, 33, "zero"),
    ],
    ids=str,
)
def test_right_kernels_are_believed(child, fmt, columns, convention):
    bits, output = some(fmt, columns)
    found = child.submit(device_child.trusted, bits, output, fmt.name, convention).result()
    assert found.violations == ()
    assert found.elements == bits.size


def test_right_kernels_are_believed_where_rows_are_too_wide_for_one_program(child):
    bits, output = some(FLOAT32, 1025)
    tiles = [("softcheck.judge.device.scan.MAX_COLUMNS", 1024)]
    found = child.submit(device_child.trusted, bits, output, "float32", functions=tiles).result()
    assert found.violations == ()
    assert found.elements == bits.size


@pytest.mark.parametrize(("fmt", "columns"), [(FLOAT16, 1), (BFLOAT16, 9), (FLOAT32, 33), (FLOAT16, 1025)], ids=str)
def test_tables_alone_give_the_numpy_judges_figures(child, fmt, columns):
    bits, output = some(fmt, columns)
    output[1, 0] ^= 16
    found = child.submit(device_child.trusted, bits, output, fmt.name, scans=False).result()
    assert differing(without_order(found), without_order(judge(bits, output, fmt))) == ""
    assert kinds(found) == kinds(judge(bits, output, fmt))


def test_planted_faults_show_in_tables_alone(child):
    bits, output = some(FLOAT32, 33)
    fault = ("bins._FIRST", 1013 * 64 - 3)
    with pytest.raises(DistrustedError, match="float32 rows of 33 columns"):
        child.submit(device_child.trusted, bits, output, "float32", constants=[fault], scans=False).result()


FAULTS = {
    "log2(e) is wrong": (
        ("exp64._MINUS_LOG2E", -1.442695),
        r"row 0 \(ordinary\), right outputs: ulp_sum [\d.]+ on the device",
    ),
    "no row is special": (
        ("table._INFINITY", 1e30),
        r"row 9 \(fully masked\), right outputs: special_rows 0 on the device, 2 by",
    ),
    "bins of the scan": (
        ("bins._FIRST_OF_FLOAT32", 117 * 64 - 2),
        r"row 0 \(ordinary\), right outputs: histogram {\d+: 0, \d+: 2",
    ),
    # Whether the scan passes subnormal results hangs on how numpy rounds for the interpreter.
    "bins of the table": (
        ("bins._FIRST", 1013 * 64 - 3),
        r"row (4 \(subnormal results|7 \(masked in part)\), right outputs: histogram",
    ),
    "another ULP": (("shares._EXPONENT", 0x7F000000), r"row 0 \(ordinary\), right outputs: ulp_sum"),
    "another sum's place": (("reduction._SUMS", 2), r"fully_masked_rows 3 on the device, 1 by numpy"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_told_with_row_and_both_values(child, fault):
    bits, output = some(FLOAT32, 33)
    constant, told = FAULTS[fault]
    with pytest.raises(DistrustedError, match=told) as caught:
        child.submit(device_child.trusted, bits, output, "float32", constants=[constant]).result()
    assert "float32 rows of 33 columns" in str(caught.value)
    assert "Report this as an error of softcheck, with: " in str(caught.value)


def test_planted_faults_show_where_a_program_has_one_row(child):
    bits, output = some(FLOAT32, 600)
    fault = ("shares._EXPONENT", 0x7F000000)
    with pytest.raises(DistrustedError, match="float32 rows of 600 columns"):
        child.submit(device_child.trusted, bits, output, "float32", constants=[fault]).result()


def test_planted_faults_show_in_one_column_too(child):
    bits, output = some(FLOAT16, 1)
    with pytest.raises(DistrustedError, match="float16 rows of 1 columns"):
        child.submit(device_child.trusted, bits, output, "float16", constants=[("bins._FIRST", 1013 * 64 - 3)]).result()


def test_kernels_that_do_not_run_are_not_believed(child):
    bits, output = some(FLOAT16, 3)
    with pytest.raises(DistrustedError, match="right outputs: InterpreterError"):
        child.submit(device_child.trusted, bits, output, "float16", constants=[("short._SCALE", "x")]).result()


def test_kernels_are_tried_once_in_a_process(child):
    # Right outputs, wrong ones, and the two that were asked for.
    assert child.submit(device_child.judged_twice, some(FLOAT16, 3)[0], "float16").result() == 4


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
def test_builtin_rows_hold_what_they_say(fmt):
    logits = builtin_rows.rows(fmt, 40)
    answers = builtin_rows.right(logits, fmt, "nan")
    right = judge(logits, answers, fmt)
    assert right.violations == ()
    assert (right.special_rows, right.fully_masked_rows) == (3, 1)
    values = decode(answers, fmt)
    assert np.count_nonzero((values[4] > 0) & (values[4] < fmt.least_normal)) >= 5
    wrong = judge(logits, builtin_rows.wrong(answers, fmt), fmt)
    assert wrong.flushed > 0
    assert kinds(wrong) >= {
        FindingKind.ULP_EXCEEDS_BOUND,
        FindingKind.SUM_VIOLATION,
        FindingKind.OUT_OF_RANGE,
        FindingKind.NAN_MISMATCH,
        FindingKind.INF_MISMATCH,
        FindingKind.MASKED_NOT_ZERO,
    }


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1, 2, 3, 64, 1000, 1024, 16384, 20000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_kernels_on_this_gpu_are_believed(dtype, columns):
    import torch

    from softcheck.judge.device.trust import distrust

    told = distrust(FORMATS[dtype], columns, "nan", torch.device("cuda"))
    assert told is None, told
