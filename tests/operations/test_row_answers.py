"""Operations with one answer for each row: oracles, bounds, and functions that are right and wrong."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from oracles.formats import FLOAT16, FLOAT32, FLOAT64, FORMATS, encode
from softcheck.cli.main import cli
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.judge.tensors import judge_tensors
from softcheck.operations.registry import operation
from softcheck.operations.targets import Targets, of_tensor
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "row_answers.py"
INF, NAN = np.inf, np.nan
IGNORING = {"ignore_index": -100.0}


def exact_loss(row, target):
    """log(sum exp x) - x_t in 60 digits; without a target the first term alone."""
    with mpmath.workdps(60):
        top = max(mpmath.mpf(float(x)) for x in row)
        total = top + mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(float(x)) - top) for x in row))
        return total if target is None else total - mpmath.mpf(float(row[target]))


def rows_of(spread, seed=0, shape=(6, 33)):
    values = np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32).astype(np.float64)
    values[1, ::2] = -INF
    values[2] = -0.75 * np.log(shape[1])
    return values


@pytest.mark.parametrize("name", ["logsumexp", "cross_entropy"])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 300.0, 1e30])
def test_oracles_keep_their_stated_error(name, spread):
    values = rows_of(spread)
    computed = operation(name)
    targets = Targets(None).of_values(values) if name == "cross_entropy" else [None] * len(values)
    for answer in (
        computed.answer(values, FLOAT32, "nan"),
        computed.answer(values, FLOAT64, "nan"),
        computed.prove(values, FLOAT32, "nan"),
    ):
        for row, target in enumerate(targets):
            expected = exact_loss(values[row], target)
            if not mpmath.isfinite(expected):
                assert answer.high[row, 0] == INF
                continue
            with mpmath.workdps(60):
                found = mpmath.mpf(answer.high[row, 0]) + mpmath.mpf(answer.low[row, 0])
                allowed = answer.relative_error[row, 0] * abs(expected) + answer.absolute_error
                assert abs(found - expected) <= allowed


@pytest.mark.parametrize("spread", [1e-3, 1.0, 300.0, 1e30])
@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_oracles_with_label_smoothing_keep_their_stated_error(spread, smoothing):
    values = rows_of(spread)
    computed = operation("cross_entropy", {"label_smoothing": smoothing})
    targets = Targets(None).of_values(values)
    for answer in (computed.answer(values, FLOAT32, "nan"), computed.prove(values, FLOAT32, "nan")):
        assert answer.high[1, 0] == INF, "a masked logit has a share of the target"
        for row in (0, 2, 3, 4, 5):
            with mpmath.workdps(60):
                x = [mpmath.mpf(float(one)) for one in values[row]]
                s = mpmath.mpf(smoothing)
                expected = exact_loss(values[row], None) - (1 - s) * x[targets[row]] - s * mpmath.fsum(x) / len(x)
                found = mpmath.mpf(answer.high[row, 0]) + mpmath.mpf(answer.low[row, 0])
                assert abs(found - expected) <= answer.relative_error[row, 0] * abs(expected) + answer.absolute_error


@pytest.mark.parametrize(
    ("name", "is_right", "dtype"),
    [
        ("with_smoothing", True, "bfloat16"),
        ("smooths_by_hand", True, "float32"),
        ("smooths_all_but_the_target", False, "float32"),
        ("smooths_all_but_the_target", False, "bfloat16"),
    ],
)
def test_label_smoothing(name, is_right, dtype):
    spec = f"{KERNELS}:{name}@operation=cross_entropy,label_smoothing=0.1"
    chosen = ["--dtype", dtype, "--device", "interpreter", *FAMILIES, "--probe", "gradients", "--effort", "quick"]
    found = CliRunner().invoke(cli, ["report", "--variant", spec, *chosen])
    assert found.exit_code == int(not is_right), found.output


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, NAN])
def test_another_label_smoothing_is_refused(smoothing):
    with pytest.raises(UsageError, match="less than 1"):
        operation("cross_entropy", {"label_smoothing": smoothing})


@pytest.mark.parametrize("name", ["logsumexp", "cross_entropy"])
def test_exact_answers_in_decimal(name):
    values = rows_of(3.0)
    targets = Targets(None).of_values(values) if name == "cross_entropy" else [None] * len(values)
    for row, target in zip(values, targets, strict=True):
        shown = operation(name).decimal(row, 0, FLOAT32, "nan")
        assert float(shown) == pytest.approx(float(exact_loss(row, target)), rel=1e-15)


def test_special_rows():
    values = np.array([[NAN, 1.0], [INF, 1.0], [-INF, -INF], [INF, -INF]])
    found = operation("logsumexp").answer(values, FLOAT32, "nan").high[:, 0]
    np.testing.assert_array_equal(found, [NAN, INF, -INF, INF])


@pytest.mark.parametrize(
    "given", [{}, {"z_loss": 1e-3}, {"weight": 1.0}, {"label_smoothing": 0.1}, {"reduction": "mean"}]
)
def test_an_infinite_logit_makes_a_loss_infinite_or_no_number(given):
    """Where nothing infinite is taken from the log-sum-exp the loss is +inf, and NaN is taken, since most kernels subtract the maximum."""
    values = np.random.default_rng(4).normal(0, 3, (40, 6)).astype(np.float32).astype(np.float64)
    values[::2, 1], values[::3, 4], values[::5, 2] = INF, -INF, NAN
    computed = operation("cross_entropy", given)
    due = computed.answer(values, FLOAT32, "nan").high
    shown = computed.on_device(torch.from_numpy(values).float(), FLOAT32).values.numpy()
    np.testing.assert_array_equal(np.isfinite(shown), np.isfinite(due))
    np.testing.assert_array_equal(shown[~np.isfinite(due)], due[~np.isfinite(due)])
    infinite = np.isposinf(due) & np.isposinf(values).any(axis=1, keepdims=True)
    assert infinite.any() == ("label_smoothing" not in given)
    bits = encode(values, FLOAT32)
    demanded = np.ones(len(values), dtype=bool) if computed.undefined is None else ~computed.undefined(values, FLOAT32)
    bits, due, infinite = bits[demanded], due[demanded], infinite[demanded]
    for instead, is_right in ((INF, True), (NAN, True), (0.0, not infinite.any()), (-INF, not infinite.any())):
        output = encode(np.where(infinite, instead, due), FLOAT32)
        assert (judge(bits, output, FLOAT32, operation=computed).violations == ()) == is_right, (instead, given)


def test_all_pairs_show_each_pair_with_each_target():
    x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)).half()
    targets = of_tensor(x, None)
    assert torch.equal(of_tensor(x.flip(1), None), targets)
    assert 200 < int(targets.sum()) < 300


@pytest.mark.parametrize("columns", [1, 2, 3, 129])
def test_rows_of_equal_logits_have_a_target(columns):
    equal = of_tensor(torch.arange(1.0, 65.0)[:, None].expand(64, columns), -100)
    assert 48 < (equal >= 0).sum() < 64


def test_targets_are_those_of_the_row_wherever_it_stands_and_of_every_kind():
    x = torch.randn(4000, 37, generator=torch.Generator().manual_seed(0)).half()
    targets = of_tensor(x, -100)
    assert torch.equal(of_tensor(x.flip(0)[:50].float(), -100), targets.flip(0)[:50])
    np.testing.assert_array_equal(Targets(-100).of_values(x.double().numpy()), targets.numpy())
    assert 150 < int((targets == -100).sum()) < 350
    assert set(range(37)) <= set(targets.tolist())
    for kind in (torch.zeros(4000), torch.full((4000,), 36), x.argmax(1), x.argmin(1)):
        assert int((targets == kind).sum()) > 400


def in_float32(name, values):
    x = values.astype(np.float32)
    top = x.max(axis=1, keepdims=True)
    found = top + np.log(np.exp(x - top).sum(axis=1, keepdims=True))
    if name == "cross_entropy":
        found = found - np.take_along_axis(x, Targets(None).of_values(values)[:, None], axis=1)
    return found.astype(np.float64)


@pytest.mark.parametrize("name", ["logsumexp", "cross_entropy"])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 3000.0])
def test_right_arithmetic_keeps_the_bound_and_wrong_arithmetic_does_not(name, spread):
    values = np.random.default_rng(3).normal(0, spread, (200, 257)).astype(np.float32).astype(np.float64)
    bits, answer = encode(values, FLOAT32), in_float32(name, values)

    def judged(output):
        return judge(bits, encode(output, FLOAT32), FLOAT32, operation=operation(name))

    assert judged(answer).violations == ()
    assert judged(answer).max_bound_share.value > 0.03, "the bound is no formality"
    for wrong in (answer * (1 + 2e-5), answer + 1e-4 * max(1.0, spread), np.zeros_like(answer)):
        assert judged(wrong).violations


def test_float32_answers_for_float16_are_judged_as_float32():
    values = encode(np.random.default_rng(3).normal(0, 3, (50, 100)), FLOAT16)
    x = torch.from_numpy(values.view(np.int16)).view(torch.float16).float()
    exact = torch.logsumexp(x, -1, keepdim=True)
    for output, is_right in ((exact, True), (exact.half().float(), False)):
        found = judge(values, output.numpy().view(np.uint32), FLOAT16, operation=operation("logsumexp"))
        assert (found.violations == ()) == is_right


def reported(name, computed, *options, dtype="float32"):
    arguments = ["report", "--variant", f"{KERNELS}:{name}", "--operation", computed, "--dtype", dtype]
    found = CliRunner().invoke(cli, [*arguments, "--device", "interpreter", "--format", "json", *options])
    return found.exit_code, json.loads(found.stdout)["variants"][0]


FAMILIES = ("--family", "normal", "--family", "padding", "--family", "ties")


@pytest.mark.parametrize(
    ("name", "computed", "call"),
    [
        ("logsumexp", "logsumexp", ""),
        ("logsumexp_kept", "logsumexp", ""),
        ("cross_entropy", "cross_entropy", "f(x, target)"),
        ("into_output", "cross_entropy", "f(x, target, out)"),
        ("cross_entropy_and_more", "cross_entropy", "f(x, target)[0]"),
        ("ignoring", "cross_entropy", "f(x, target)"),
    ],
)
def test_right_functions_pass(name, computed, call):
    variant = load(f"{KERNELS}:{name}@operation={computed}")
    assert variant.function(torch.zeros(2, 3)).shape == (2, 1)
    assert variant.call == call
    code, result = reported(name, computed, *FAMILIES)
    assert (code, result["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("name", "computed", "kind"),
    [
        ("logsumexp_without_maximum", "logsumexp", "inf_mismatch"),
        ("logsumexp_in_base_two", "logsumexp", "ulp_exceeds_bound"),
        ("logsumexp_of_all_but_one", "logsumexp", "ulp_exceeds_bound"),
        ("matrix", "logsumexp", "wrong_shape"),
        ("target_of_the_next_row", "cross_entropy", "ulp_exceeds_bound"),
        ("last_column_is_never_the_target", "cross_entropy", "ulp_exceeds_bound"),
        ("smoothed", "cross_entropy", "ulp_exceeds_bound"),
    ],
)
def test_wrong_functions_are_found(name, computed, kind):
    options = (*FAMILIES, "--family", "huge")
    code, result = reported(name, computed, *options)
    if kind == "wrong_shape":
        assert code != 0
        assert "shape" in result["reason"]
        return
    assert code == 1
    assert kind in {finding["kind"] for finding in result["findings"]}


def test_a_mean_is_judged_as_one_where_nobody_declares_it():
    code, result = reported("mean", "cross_entropy", "--family", "normal")
    assert (code, result["verdict"]) == (0, "pass")


@pytest.mark.parametrize("ignored", [-100, 0, 255])
def test_ignored_rows(ignored):
    right = f"{KERNELS}:ignoring@operation=cross_entropy,ignore_index={ignored}"
    wrong = f"{KERNELS}:counts_ignored_rows@operation=cross_entropy,ignore_index={ignored}"
    common = ["--dtype", "float32", "--device", "interpreter", "--family", "normal", "--family", "rows"]
    assert CliRunner().invoke(cli, ["report", "--variant", right, *common]).exit_code == 0
    assert CliRunner().invoke(cli, ["report", "--variant", wrong, *common]).exit_code == 1


@pytest.mark.parametrize("number", [0.5, float("inf"), float("nan")])
def test_an_ignore_index_that_is_no_integer_is_refused(number):
    with pytest.raises(UsageError, match="expected an integer"):
        operation("cross_entropy", {"ignore_index": number})


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("others", [{}, {"label_smoothing": 0.1, "z_loss": 1e-3}, {"weight": 1}])
def test_rows_whose_target_is_an_ignored_column_have_no_loss(reduction, others):
    loss = operation("cross_entropy", {"ignore_index": 2, "reduction": reduction, **others})
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    y, fmt = loss.yardstick(x), FORMATS["float32"]
    for judged in (judge, judge_tensors):
        inputs, right, wrong = (
            part if judged is judge_tensors else encode(part.double().numpy(), fmt) for part in (x, y, y + 1e-3)
        )
        assert not judged(inputs, right, fmt, operation=loss).violations
        assert judged(inputs, wrong, fmt, operation=loss).violations


@pytest.mark.parametrize(
    ("name", "is_right", "dtype"),
    [
        ("cross_entropy", True, "float32"),
        ("cross_entropy", True, "bfloat16"),
        ("WithoutTheTarget", False, "float32"),
        ("OfOnes", False, "bfloat16"),
    ],
)
def test_gradients_are_judged(name, is_right, dtype):
    code, result = reported(name, "cross_entropy", "--probe", "gradients", "--effort", "quick", dtype=dtype)
    kinds = {finding["kind"] for finding in result["findings"]}
    assert (code, kinds) == ((0, set()) if is_right else (1, {"wrong_gradient"}))


def test_a_logsumexp_has_the_softmax_for_its_gradient():
    code, result = reported("logsumexp", "logsumexp", "--probe", "gradients", "--effort", "quick", dtype="float16")
    assert (code, result["findings"]) == (0, [])
    assert result["probes_run"]["gradients"] > 1


def test_what_makes_targets_is_no_operation_of_the_call():
    _, result = reported("cross_entropy", "cross_entropy", "--probe", "regimes", "--quick")
    assert result["findings"] == []
    seen = json.dumps(result["seen_regimes"])
    assert "aten" in seen
    assert "bitwise_xor" not in seen
