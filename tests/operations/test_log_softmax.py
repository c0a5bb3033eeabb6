"""Log-softmax: the bound holds for right arithmetic and catches wrong one, and the built-in variants pass."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from oracles.formats import FLOAT16, FLOAT32, FORMATS, decode, encode
from softcheck.cli.main import cli
from softcheck.judge.judge import judge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation

LOG_SOFTMAX: Operation = operation("log_softmax")
NAN, INF = np.nan, np.inf


def rows_of(spread, shape=(40, 257), seed=0):
    return np.random.default_rng(seed).normal(0, spread, shape)


def in_float32(x):
    """As most kernels compute it: differences, exponentials, a sum in sequence, its logarithm, one more difference."""
    with np.errstate(all="ignore"):
        x = x.astype(np.float32)
        below = x - x.max(axis=1, keepdims=True)
        total = np.cumsum(np.exp(below), axis=1, dtype=np.float32)[:, -1:]
        return below - np.log(total)


def judged(values, output, fmt, **options):
    """The judge's measurement of an output for values that are rounded to the format first."""
    bits = encode(values, fmt)
    return judge(
        bits, encode(np.asarray(output(decode(bits, fmt)), np.float64), fmt), fmt, operation=LOG_SOFTMAX, **options
    )


@pytest.mark.parametrize("fmt", [FLOAT16, FLOAT32, FORMATS["bfloat16"]], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("spread", [1e-3, 1.0, 10.0, 100.0, 3000.0])
def test_right_arithmetic_keeps_the_bound(fmt, spread):
    found = judged(rows_of(spread), in_float32, fmt)
    assert found.violations == ()
    assert found.max_bound_share.value > 0.1, "the bound is no formality"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (
            lambda x: (
                x.astype(np.float32) - np.log(np.exp(x - x.max()).sum(1, keepdims=True)).astype(np.float32) - x.max()
            ),
            "ulp",
        ),
        (lambda x: np.log(np.exp(in_float32(x).astype(np.float64)) + 1e-6), "ulp"),
        (lambda x: in_float32(x) * np.float32(1.00001), "ulp"),
        (lambda x: in_float32(x) + np.float32(1e-4), "ulp"),
        (lambda x: np.maximum(in_float32(x), -20.0), "ulp"),
        (lambda x: np.where(in_float32(x) < -104, -INF, in_float32(x)), "inf"),
    ],
)
def test_wrong_arithmetic_breaks_it(wrong, kind):
    with np.errstate(all="ignore"):
        found = judged(rows_of(30.0), wrong, FLOAT32)
    kinds = {violation.kind for violation in found.violations}
    assert {"ulp": "ulp_exceeds_bound", "inf": "inf_mismatch"}[kind] in kinds


def test_errors_are_counted_in_the_ulp_of_1_where_the_result_is_smaller():
    values = np.array([[0.0, -30.0]])
    found = judged(values, lambda _: [[0.0, -30.0]], FLOAT32)
    assert found.violations == ()
    assert found.max_ulp.value == pytest.approx(9.36e-14 * 2**23, rel=1e-2)


@pytest.mark.parametrize(
    ("row", "output", "kinds"),
    [
        ([0.0, -INF], [0.0, -INF], set()),
        ([0.0, -INF], [0.0, -65504.0], {"inf_mismatch"}),
        ([0.0, -INF], [-0.0, -INF], set()),
        ([-INF, -INF], [NAN, NAN], set()),
        ([-INF, -INF], [0.0, 0.0], {"nan_mismatch"}),
        ([NAN, 1.0], [NAN, NAN], set()),
        ([INF, 1.0], [0.0, -INF], {"nan_mismatch"}),
        ([60000.0, -60000.0], [0.0, -INF], set()),
        ([60000.0, -60000.0], [0.0, -65504.0], {"ulp_exceeds_bound"}),
        ([30000.0, -30000.0], [0.0, -INF], {"inf_mismatch"}),
        ([0.0, 0.0], [0.5, -0.693], {"out_of_range", "ulp_exceeds_bound", "sum_violation"}),
    ],
)
def test_special_values_follow_the_conventions(row, output, kinds):
    found = judged(np.array([row]), lambda _: [output], FLOAT16)
    assert {str(violation.kind) for violation in found.violations} == kinds


def test_masked_row_is_minus_infinity_where_zero_is_declared():
    found = judged(np.array([[-INF, -INF]]), lambda _: [[-INF, -INF]], FLOAT16, fully_masked="zero")
    assert found.violations == ()


def test_built_in_variants_keep_their_promises_on_a_command_line(tmp_path):
    file = tmp_path / "log.json"
    families = [
        word for name in ("padding", "special", "finfo-min", "shifted", "widths") for word in ("--family", name)
    ]
    arguments = ["report", "--operation", "log_softmax", "--dtype", "float16", "--dtype", "float32", *families]
    done = CliRunner().invoke(cli, [*arguments, "--device", "interpreter", "--format", "json", "--output", str(file)])
    assert done.exit_code == 0, done.output
    report = json.loads(file.read_text())
    assert {(row["name"], row["operation"]) for row in report["variants"]} == {
        (name, "log_softmax") for name in ("torch_log_softmax", "log_softmax_one_block", "log_softmax_online")
    }
    assert {row["verdict"] for row in report["variants"]} == {"pass", "known"}


def test_a_function_is_judged_as_the_operation_that_is_given(tmp_path):
    module = tmp_path / "mine.py"
    module.write_text("import torch\n\ndef f(x):\n    return torch.log_softmax(x, -1)\n")
    arguments = [f"{module}:f", "--dtype", "float32", "--family", "normal", "--device", "interpreter"]
    assert CliRunner().invoke(cli, ["report", "--operation", "log_softmax", *arguments]).exit_code == 0
    assert CliRunner().invoke(cli, ["report", "--operation", "softmax", *arguments]).exit_code == 1
    assert CliRunner().invoke(cli, ["report", *arguments]).exit_code == 0
    unknown = CliRunner().invoke(cli, ["report", "--operation", "logsoftmax", *arguments])
    assert unknown.exit_code == 2
    assert "did you mean 'log_softmax'" in unknown.output


def test_operations_are_listed_with_their_variants():
    assert "torch_log_softmax, log_softmax_one_block" in CliRunner().invoke(cli, ["list", "operations"]).output


def gradient_share(backward, fmt, spread):
    """The largest error over its limit of a backward from the rounded output, in float32."""
    random = np.random.default_rng(2)
    logits, grads = (decode(encode(random.normal(0, size, (4, 63)), fmt), fmt) for size in (spread, 1.0))
    output = decode(encode(in_float32(logits).astype(np.float64), fmt), fmt).astype(np.float32)
    found = decode(encode(backward(np.exp(output), grads.astype(np.float32)).astype(np.float64), fmt), fmt)
    assert LOG_SOFTMAX.gradient is not None
    answer = LOG_SOFTMAX.prove(logits, fmt, "nan")
    errors = LOG_SOFTMAX.gradient.errors(found, grads, logits, answer, fmt, Arithmetic())
    return float((errors.errors / errors.limits).max())


@pytest.mark.parametrize("fmt", [FLOAT16, FLOAT32, FORMATS["bfloat16"]], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0, 40.0])
def test_gradients_are_judged_by_their_own_formula(fmt, spread):
    assert gradient_share(lambda p, g: g - p * g.sum(1, keepdims=True), fmt, spread) <= 1
    assert gradient_share(lambda p, g: g - 1.3 * p * g.sum(1, keepdims=True), fmt, spread) > 1
    assert gradient_share(lambda p, g: p * (g - (p * g).sum(1, keepdims=True)), fmt, spread) > 1
    assert gradient_share(lambda p, g: np.where(p > 0.9, g, g - p * g.sum(1, keepdims=True)), fmt, 40.0) > 1


def test_the_unit_of_errors_is_told_below_every_table():
    told = "log_softmax in ULPs of max(|r|, 1)"
    exhausted = ["exhaust", "torch_log_softmax", "--dtype", "float16", "--columns", "2", "--sample-first", "256"]
    reported = ["report", "torch_log_softmax", "--dtype", "float32", "--family", "ties"]
    for arguments in (exhausted, reported):
        done = CliRunner().invoke(cli, [*arguments, "--device", "interpreter", "--format", "summary"])
        assert told in done.output
    softmax = CliRunner().invoke(cli, ["report", "torch", *reported[2:], "--device", "interpreter"])
    assert told not in softmax.output
