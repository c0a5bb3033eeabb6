"""Masks and scales: right functions pass, wrong ones are found, and the bound follows the scale."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from oracles.formats import FLOAT32, FLOAT64, decode, encode
from softcheck.cli.main import cli
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.operations.registry import operation
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "masked.py"
INF = np.inf


def reported(name, *options, dtype="float32"):
    arguments = ["report", "--variant", f"{KERNELS}:{name}", "--dtype", dtype, "--device", "interpreter"]
    found = CliRunner().invoke(cli, [*arguments, "--format", "json", *options])
    return found.exit_code, json.loads(found.stdout)["variants"][0]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("takes_what_is_hidden", "f(x, mask)"),
        ("takes_what_is_kept", "f(x, keep)"),
        ("takes_a_bias", "f(x, bias)"),
        ("scaled", "f(x, scale)"),
        ("by_temperature", "f(x, temperature=temperature)"),
        ("sharpened", "f(x, temperature=temperature)"),
        ("scaled_inside", ""),
    ],
)
def test_right_functions_pass(name, call):
    variant = load(f"{KERNELS}:{name}")
    variant.function(torch.zeros(2, 3))
    assert variant.call == call
    code, result = reported(name, "--family", "padding", "--family", "normal", "--family", "huge", dtype="float16")
    assert (code, result["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("adds_a_large_number", {"nan_mismatch", "masked_not_zero"}),
        ("multiplies_by_the_mask", {"nan_mismatch"}),
        ("forgets_the_last_column_of_the_mask", {"nan_mismatch", "masked_not_zero"}),
        ("masks_in_place", {"input_modified"}),
        ("scale_of_three_digits", {"ulp_exceeds_bound"}),
        ("scale_left_out", {"ulp_exceeds_bound"}),
        ("scales_the_maximum_only", {"nan_mismatch"}),
    ],
)
def test_wrong_functions_are_found(name, kinds):
    code, result = reported(name, "--family", "padding", "--family", "normal", "--family", "huge")
    assert code == 1
    assert kinds & {finding["kind"] for finding in result["findings"]}


def test_an_input_is_changed_where_it_is_hidden_too():
    _, result = reported("masks_in_place", "--family", "padding")
    assert {finding["kind"] for finding in result["findings"]} == {"input_modified"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_bias_and_what_it_is_added_to_make_the_matrix(dtype):
    generator = torch.Generator().manual_seed(1)
    sizes = torch.logspace(-44, 4, 50, dtype=torch.float64)[:, None]
    x = (torch.randn(50, 129, generator=generator, dtype=torch.float64) * sizes).to(dtype)
    x[0, 0], x[1, 1], x[2, 2], x[3, 3] = INF, -INF, torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    made = operation("softmax").arguments.make(x, frozenset({"bias"}))
    assert torch.equal(made["x"] + made["bias"], x)
    large = x[40:].abs() > 1
    assert 0.05 < (made["bias"][40:].abs() > x[40:].abs() / 2)[large].float().mean() < 0.95
    # One element of memory may be many of the matrix.
    again = operation("softmax").arguments.make(x.flip(1), frozenset({"bias"}))
    assert torch.equal(again["x"].flip(1)[40:], made["x"][40:])


@pytest.mark.parametrize("name", ["mask", "keep", "bias"])
def test_a_mask_has_strides_of_its_own_where_the_matrix_does(name):
    x = torch.randn(5, 14)[:, ::2]
    x[:, 3] = -INF
    mask = operation("softmax").arguments.make(x, frozenset({name}))[name]
    assert mask.stride() not in {x.stride(), (7, 1)}
    assert torch.equal(mask, operation("softmax").arguments.make(x.contiguous(), frozenset({name}))[name])


@pytest.mark.parametrize("name", ["changes_the_mask", "changes_the_bias"])
def test_a_mask_that_is_changed_is_found(name):
    _, result = reported(name, "--family", "padding")
    assert {finding["kind"] for finding in result["findings"]} == {"input_modified"}


def scaled_in_decimal(row, scale):
    with mpmath.workdps(1200):
        terms = [mpmath.exp(mpmath.mpf(float(x)) * mpmath.mpf(scale)) for x in row]
        return [term / mpmath.fsum(terms) for term in terms]


@pytest.mark.parametrize("scale", [0.3, 1 / 80**0.5, 0.125, 1e-3])
@pytest.mark.parametrize("spread", [1.0, 300.0, 1e30])
def test_the_oracle_keeps_its_stated_error(scale, spread):
    rows = np.random.default_rng(1).normal(0, spread, (4, 33)).astype(np.float32).astype(np.float64)
    computed = operation("softmax", {"scale": scale})
    for answer in (computed.answer(rows, FLOAT32, "nan"), computed.prove(rows, FLOAT32, "nan")):
        for row, exact in enumerate(scaled_in_decimal(each, scale) for each in rows):
            for column, expected in enumerate(exact):
                with mpmath.workdps(1200):
                    high, low = mpmath.mpf(answer.high[row, column]), mpmath.mpf(answer.low[row, column])
                    found = mpmath.ldexp(high + low, int(answer.exponent[row, column]))
                    allowed = answer.relative_error[row, column] * expected + answer.absolute_error
                    assert abs(found - expected) <= allowed


@pytest.mark.parametrize("scale", [0.3, 0.125])
def test_folded_constants_keep_the_bound_and_another_scale_does_not(scale):
    x = np.random.default_rng(2).normal(0, 40, (50, 300)).astype(np.float32)
    bits = encode(x.astype(np.float64), FLOAT32)

    def folded(factor):
        scaled = x * np.float32(factor * np.log2(np.e))
        powers = np.exp2(scaled - scaled.max(axis=1, keepdims=True))
        return encode((powers / powers.sum(axis=1, keepdims=True)).astype(np.float64), FLOAT32)

    computed = operation("softmax", {"scale": scale})
    assert judge(bits, folded(scale), FLOAT32, operation=computed).violations == ()
    assert judge(bits, folded(scale * (1 + 2e-5)), FLOAT32, operation=computed).violations != ()


def test_nothing_is_demanded_of_rows_whose_scaled_logits_overflow():
    bits = encode(np.array([[3e38, 0.0], [1e38, 0.0]]), FLOAT32)
    lost = encode(np.array([[np.nan, np.nan], [np.nan, np.nan]]), FLOAT32)
    found = judge(bits, lost, FLOAT32, operation=operation("softmax", {"scale": 2.0}))
    assert [(each.kind, each.row, each.count) for each in found.violations] == [("nan_mismatch", 1, 2)]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_other_scales_are_refused(scale):
    with pytest.raises(UsageError, match="above 0"):
        operation("softmax", {"scale": scale})


def test_a_parameter_that_there_is_not_is_refused():
    with pytest.raises(UsageError, match="no parameter 'scales'"):
        operation("softmax", {"scales": 0.5})


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(
    ("scale", "spread"), [(0.3, 30.0), (1 / 7, 3000.0), (1000.0, 0.5), (1e-300, 1e302), (0.7, 1e-9), (0.3, 1e308)]
)
def test_answers_with_a_scale_are_right_to_the_digits_of_float64(name, scale, spread):
    rows = np.random.default_rng(5).normal(0, 1.0, (3, 17)).clip(-1.7, 1.7) * spread
    rows[1, 3:9], rows[2, 5] = rows[1, 3], -np.inf
    computed = operation(name, {"scale": scale})
    with mpmath.workdps(1200):
        for found in (computed.answer(rows, FLOAT64, "nan"), computed.prove(rows, FLOAT64, "nan")):
            for i, row in enumerate(rows):
                logits = [mpmath.mpf(float(x)) * mpmath.mpf(scale) for x in row]
                total = mpmath.fsum(mpmath.exp(x - max(logits)) for x in logits)
                for j, logit in enumerate(logits):
                    below = logit - max(logits)
                    exact = below - mpmath.log(total) if name == "log_softmax" else mpmath.exp(below) / total
                    got = (mpmath.mpf(found.high[i, j]) + mpmath.mpf(found.low[i, j])) * mpmath.mpf(2) ** int(
                        found.exponent[i, j]
                    )
                    if mpmath.isinf(exact) or (below < -1200 and name == "softmax"):
                        continue
                    relative = np.broadcast_to(found.relative_error, found.high.shape)[i, j]
                    assert abs(got - exact) <= relative * abs(exact) + found.absolute_error
                    assert relative < 2.0**-70


def test_float64_kernels_with_a_scale_are_judged():
    bits = encode(np.random.default_rng(2).normal(0, 8, (40, 65)), FLOAT64)
    x = decode(bits, FLOAT64)
    for factor, is_right in ((0.3, True), (0.3 * (1 + 2.0**-40), False)):
        powers = np.exp((x - x.max(axis=1, keepdims=True)) * factor)
        output = encode(powers / powers.sum(axis=1, keepdims=True), FLOAT64)
        found = judge(bits, output, FLOAT64, operation=operation("softmax", {"scale": 0.3}))
        assert (found.violations == ()) == is_right
