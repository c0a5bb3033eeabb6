"""Options of the cross-entropy: every combination against a formula in 40 digits, right and wrong arithmetic, functions of users."""

from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from checking import kinds_found
from click.testing import CliRunner

from oracles.formats import BFLOAT16, FLOAT32, FORMATS, encode
from softcheck.calling.call import call, place, returned_wrongly, to_bits
from softcheck.cases.case import PACKED
from softcheck.cli.main import cli
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.registry import operation
from softcheck.operations.targets import Targets, batch_of, weights_in_float64
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "losses.py"
INF = np.inf

ROWS = 64
COLUMNS = 15
"""A row of 15 is a matrix of 3 rows of 5 for a mean or a sum."""

AMONG_COLUMNS = 1.0
"""A target that is ignored and is a column."""

OPTIONS = {
    "ignore_index": (None, -100.0, AMONG_COLUMNS),
    "label_smoothing": (None, 0.1),
    "weight": (None, 1.0),
    "z_loss": (None, 1e-2),
    "scale": (None, 0.7),
    "softcap": (None, 8.0),
    "reduction": (None, "mean", "sum"),
}
COMBINATIONS = [
    {name: value for name, value in zip(OPTIONS, chosen, strict=True) if value is not None}
    for chosen in product(*OPTIONS.values())
] + [{"invalid_target": word, **more} for word in ("nan", "zero") for more in ({}, {"weight": 1.0, "z_loss": 1e-2})]


def telling_rows():
    """Rows of several sizes, equal logits, one far above the others, nearly cancelling, and masked logits."""
    random = np.random.default_rng(5)
    values = random.normal(0, 1, (ROWS, COLUMNS)) * np.repeat([1e-3, 1.0, 12.0, 300.0], ROWS // 4)[:, None]
    values[3], values[4, 7], values[5] = -0.75 * np.log(COLUMNS), 60.0, np.linspace(-20, 0, COLUMNS)
    values[6, 1], values[7, 2:6] = -INF, -INF
    return values.astype(np.float32).astype(np.float64)


def exact_answer(row, given):
    """The loss of a row, or of the matrix that is made of it, in 40 digits; None where nothing is demanded or it is infinite."""
    parts, width = batch_of(len(row)) if "reduction" in given else (1, len(row))
    weights = weights_in_float64(width) if "weight" in given else np.ones(width)
    s, z, c = (mpmath.mpf(given.get(name, 0.0)) for name in ("label_smoothing", "z_loss", "softcap"))
    factor = mpmath.mpf(given.get("scale", 1.0))
    targets = Targets(given.get("ignore_index"), given.get("invalid_target", ""))
    losses, squares, weighing, count = mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0), 0
    for one in row.reshape(parts, width):
        t = int(targets.of_values(one[None])[0])
        if not 0 <= t < width or t == given.get("ignore_index"):
            if given.get("invalid_target") == "nan":
                return None
            continue
        x = [factor * mpmath.mpf(v) for v in one]
        x = [c * mpmath.tanh(v / c) if c else v for v in x]
        top = max(x)
        lse = top + mpmath.log(mpmath.fsum(mpmath.exp(v - top) for v in x))
        losses += (1 - s) * mpmath.mpf(weights[t]) * (lse - x[t]) if not mpmath.isinf(x[t]) else mpmath.inf
        if s:
            losses += s / width * mpmath.fsum(mpmath.mpf(w) * (lse - v) for w, v in zip(weights, x, strict=True) if w)
        squares += z * lse**2
        weighing, count = weighing + mpmath.mpf(weights[t]), count + 1
    if given.get("reduction") == "mean":
        return losses / weighing + squares / count if weighing else None
    return losses + squares


def in_float32(values, given):
    """The answers as a kernel in float32 gives them, one number for each row."""
    parts, width = batch_of(values.shape[1]) if "reduction" in given else (1, values.shape[1])
    rows = values.reshape(len(values) * parts, width)
    targets = Targets(given.get("ignore_index"), given.get("invalid_target", "")).of_values(rows)
    left_out = (targets < 0) | (targets >= width) | (targets == given.get("ignore_index", -1))
    one = np.float32
    x = rows.astype(one) * one(given.get("scale", 1.0))
    if "softcap" in given:
        cap = one(given["softcap"])
        x = cap * np.tanh(x * (one(1) / cap))
    weights = (weights_in_float64(width) if "weight" in given else np.ones(width)).astype(one)
    s, z = one(given.get("label_smoothing", 0.0)), one(given.get("z_loss", 0.0))
    chosen = np.where(left_out, 0, targets)
    with np.errstate(invalid="ignore"):
        lse = x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))
        loss = (one(1) - s) * weights[chosen] * (lse - np.take_along_axis(x, chosen[:, None], 1)[:, 0])
        if s:
            loss = loss + s / one(width) * (weights.sum() * lse - (weights * x).sum(1))
    loss, square = (np.where(left_out, one(0), part).reshape(len(values), parts) for part in (loss, z * lse * lse))
    if given.get("invalid_target") == "nan":
        loss = np.where((left_out & (targets != -100)).reshape(loss.shape), one(np.nan), loss)
    weighing, count = (
        np.where(left_out, 0, part).reshape(len(values), parts).sum(1, dtype=one)
        for part in (weights[chosen], np.ones(len(rows), one))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        if given.get("reduction") == "mean":
            return (loss.sum(1) / weighing + square.sum(1) / count).astype(np.float64)[:, None]
        return (loss.sum(1) + square.sum(1)).astype(np.float64)[:, None]


def judged(values, output, given):
    return judge(encode(values, FLOAT32), encode(output, FLOAT32), FLOAT32, operation=operation("cross_entropy", given))


def test_every_combination_of_options():
    """Oracles keep their stated errors, float32 keeps the bound, and an option that is left out or taken for another is found."""
    values, compared, tightest = telling_rows(), 0, 1.0
    for turn, given in enumerate(COMBINATIONS):
        computed = operation("cross_entropy", given)
        some = values[turn % 16 :: 16]
        undefined = np.zeros(len(some), dtype=bool) if computed.undefined is None else computed.undefined(some, FLOAT32)
        answers = (computed.answer(some, FLOAT32, "nan"), computed.prove(some, FLOAT32, "nan"))
        for row in np.flatnonzero(~undefined):
            with mpmath.workdps(40):
                expected = exact_answer(some[row], given)
                for answer in answers:
                    if expected is None:
                        assert np.isnan(answer.high[row, 0])
                    elif not mpmath.isfinite(expected):
                        assert answer.high[row, 0] == INF
                    else:
                        found = mpmath.mpf(answer.high[row, 0]) + mpmath.mpf(answer.low[row, 0])
                        allowed = answer.relative_error[row, 0] * abs(found) + answer.absolute_error
                        assert abs(found - expected) <= allowed, (given, row)
                        compared += 1
        right = judged(values, in_float32(values, given), given)
        assert right.violations == (), given
        if given.get("ignore_index") != AMONG_COLUMNS:
            # It takes the target of many rows, and so their losses.
            tightest = min(tightest, right.max_bound_share.value)
        for name in list(given)[turn % max(1, len(given)) :][:2]:
            fewer = {other: value for other, value in given.items() if other != name}
            if name == "reduction":
                fewer["reduction"] = "sum" if given[name] == "mean" else "mean"
            wrong = in_float32(values, fewer)
            assert judged(values, wrong, given).violations, (given, name)
    assert compared > 5 * len(COMBINATIONS)
    assert tightest > 0.01, "the bound is no formality"


def test_nothing_is_demanded_where_capped_logits_overflow():
    """The square of a log-sum-exp of 3e19 is infinite in float32. A cap of 8 makes every logit small, so that its rows are judged."""
    assert judged(np.full((4, COLUMNS), 3e19), np.full((4, 1), INF), {"softcap": 1e20, "z_loss": 1e-2}).violations == ()
    given = {"softcap": 8.0, "z_loss": 1e-2}
    output = in_float32(values := np.full((4, COLUMNS), 3e38), given)
    assert judged(values, output, given).violations == ()
    assert judged(values, output * 1.01, given).violations


def test_the_arb_oracle_knows_more_digits():
    values = telling_rows()
    computed = operation("cross_entropy", {"weight": 1.0, "z_loss": 1e-2, "softcap": 8.0, "label_smoothing": 0.1})
    rough, proven = computed.answer(values, FLOAT32, "nan"), computed.prove(values, FLOAT32, "nan")
    seen = ~computed.undefined(values, FLOAT32)
    assert proven.relative_error[seen].max() < 1e-30
    assert rough.relative_error[seen].min() > 1e-17


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z_loss": -1.0}, "from 0 to 1"),
        ({"softcap": -30.0}, "above 0"),
        ({"scale": 0.0}, "above 0"),
        ({"softcap": INF}, "above 0"),
        ({"weight": 0.5}, "expected 1"),
        ({"reduction": "avg"}, "mean"),
        ({"invalid_target": "raise"}, "nan"),
        ({"invalid_target": "nan", "reduction": "mean"}, "leave one out"),
    ],
)
def test_other_values_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        operation("cross_entropy", given)


def test_weights_are_those_of_the_column_in_every_matrix():
    made = operation("cross_entropy", {"weight": 1.0}).arguments.make
    x = torch.randn(4, 40)
    weight = made(x, frozenset({"weight"}))["weight"]
    assert torch.equal(made(x[:1, :7].bfloat16(), frozenset({"weight"}))["weight"].float(), weight[:7])
    assert (weight >= 0).all()
    assert 0 < int((weight == 0).sum()) < 8
    strided = made(x[:, ::2], frozenset({"weight"}))["weight"]
    assert torch.equal(strided, weight[:20])
    assert strided.stride() != (1,)


def test_targets_that_are_no_columns_are_of_every_kind():
    x = torch.randn(2000, 37, generator=torch.Generator().manual_seed(0))
    targets = Targets(-100, "nan").of_tensor(x)
    assert {-1, 37, -38, 1037, 2**32, -100} < set(targets.tolist())
    assert 60 < int(((targets < 0) | (targets > 36)).logical_and(targets != -100).sum()) < 200


def found(name, declared, dtype="float32"):
    matrices = [telling_rows(), np.full((1, COLUMNS), 3000.0), np.eye(COLUMNS)[:1] * 3e4]
    return kinds_found(f"{KERNELS}:{name}@operation=cross_entropy,{declared}", matrices, dtype)


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("weighted", "weight=1"),
        ("weighted_in_float32", "weight=1,label_smoothing=0.1"),
        ("with_square", "z_loss=1e-3"),
        ("capped", "softcap=20"),
        ("scaled", "scale=0.7"),
        ("scaled_and_capped", "scale=0.7,softcap=20"),
        ("of_a_matrix", "reduction=mean,ignore_index=-100"),
        ("of_a_matrix", "reduction=sum"),
        ("weighted_mean", "reduction=mean,weight=1"),
        ("nan_for_no_column", "invalid_target=nan,ignore_index=-100"),
        ("nan_by_a_factor", "invalid_target=nan,ignore_index=-100"),
        ("gradient_in_its_place", "gradient_in_place=1,ignore_index=-100"),
        ("mean_gradient_in_its_place", "gradient_in_place=1,reduction=mean"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_right_functions_pass(name, declared, dtype):
    assert found(name, declared, dtype) == set()


@pytest.mark.parametrize(
    ("name", "declared", "kind"),
    [
        ("weights_of_the_row", "weight=1", "ulp_exceeds_bound"),
        ("weighted_twice", "weight=1", "ulp_exceeds_bound"),
        ("square_of_the_loss", "z_loss=1e-3", "ulp_exceeds_bound"),
        ("square_without_gradient", "z_loss=1e-2", "wrong_gradient"),
        ("capped_by_exponentials", "softcap=20", "nan_mismatch"),
        ("cap_without_gradient", "softcap=20", "wrong_gradient"),
        ("scale_without_gradient", "scale=0.7", "wrong_gradient"),
        ("mean_over_ignored_rows_too", "reduction=mean,ignore_index=-100", "ulp_exceeds_bound"),
        ("mean_by_number", "reduction=mean,weight=1", "ulp_exceeds_bound"),
        ("reads_no_column", "invalid_target=nan", "nan_mismatch"),
        ("zero_with_a_gradient", "invalid_target=zero", "wrong_gradient"),
        ("probabilities_in_its_place", "gradient_in_place=1", "wrong_gradient"),
        ("gradient_in_its_place", "ignore_index=-100", "input_modified"),
    ],
)
def test_wrong_functions_are_found(name, declared, kind):
    assert kind in found(name, declared)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("of_hidden_states", set()),
        ("of_an_input", set()),
        ("of_tiles_from_a_number", {"inf_mismatch"}),
        ("without_the_head_of_the_target", {"ulp_exceeds_bound"}),
    ],
)
def test_a_loss_of_hidden_states_is_judged_with_an_identity_head(name, kinds, dtype):
    spec = f"{KERNELS}:{name}@operation=cross_entropy"
    variant = load(spec)
    assert variant.operation.parameters["head"] == 1.0
    assert variant.operation.most_columns == 1024
    matrices = [telling_rows(), np.full((3, COLUMNS), -300.0)]
    assert {kind for kind in kinds_found(spec, matrices, dtype) if kind != "wrong_gradient"} == kinds


def test_rows_with_infinities_are_not_judged_behind_a_head():
    values = np.zeros((2, 4))
    values[0, 1] = -INF
    behind, plain = operation("cross_entropy", {"head": 1.0}), operation("cross_entropy")
    assert behind.undefined(values, FLOAT32).tolist() == [True, False]
    assert behind.undefined(torch.from_numpy(values), FLOAT32).tolist() == [True, False]
    assert plain.undefined is None


@pytest.mark.parametrize(
    ("name", "declared", "code"),
    [
        ("weighted_mean", "reduction=mean,weight=1", 0),
        ("mean_by_number", "reduction=mean,weight=1", 1),
        ("mean_gradient_in_its_place", "gradient_in_place=1,reduction=mean", 0),
    ],
)
def test_reports(name, declared, code):
    spec = f"{KERNELS}:{name}@operation=cross_entropy,{declared}"
    chosen = ["--dtype", "float32", "--device", "interpreter", "--family", "ties", "--probe", "empties"]
    done = CliRunner().invoke(cli, ["report", "--variant", spec, *chosen])
    assert done.exit_code == code, done.output


def test_a_mean_that_is_not_declared_is_recognised_by_its_answer():
    variant = load(f"{KERNELS}:weighted_mean@operation=cross_entropy,weight=1")
    x = torch.randn(4, COLUMNS)
    called = call(variant.function, place(to_bits(x, FLOAT32), FLOAT32, PACKED, x.device), variant.operation)
    assert called.violations == ()
    assert variant.declaration.parameters == {"weight": 1.0, "reduction": "mean"}


def test_weights_that_are_not_declared_say_what_to_declare():
    with pytest.raises(UsageError, match="--declare weight=1"):
        load(f"{KERNELS}:weighted(x, target, weight)@operation=cross_entropy")


def test_a_loss_of_16_bits_is_rounded_once_more():
    values = telling_rows()
    rounded = torch.from_numpy(values).bfloat16().double().numpy()
    given = {"weight": 1.0, "reduction": "mean"}
    output = torch.from_numpy(in_float32(rounded, given)).bfloat16().double().numpy()
    found = judge(
        encode(rounded, BFLOAT16), encode(output, BFLOAT16), BFLOAT16, operation=operation("cross_entropy", given)
    )
    assert found.violations == ()


def test_a_mean_without_its_declaration_is_told_how_to_declare_it():
    losses, x = operation("cross_entropy"), torch.zeros(2, 3)
    found = returned_wrongly(torch.zeros(()), x, losses)
    assert found.message.endswith("declare it: --declare reduction=mean")
    assert "declare" not in returned_wrongly(torch.zeros(2), x, losses).message


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("grad", [1.0, 0.01])
def test_the_gradient_of_a_smoothed_loss_that_torch_makes_keeps_its_bound(dtype, grad):
    """Torch rounds each column's gradient, s g / n, to the format: in float16 it may lose half a subnormal, or be 0, and their sum with it."""
    smoothed, fmt = operation("cross_entropy", {"label_smoothing": 0.1}), FORMATS[dtype]
    x = torch.zeros(2, 5000, dtype=getattr(torch, dtype))
    x[0, 3], x[1] = 12.0, torch.linspace(-3, 3, 5000)
    target = smoothed.arguments.make(x, frozenset({"target"}))["target"]
    x.requires_grad_()
    loss = torch.nn.functional.cross_entropy(x, target, label_smoothing=0.1, reduction="none")
    grads = torch.full_like(loss, grad)
    (found,) = torch.autograd.grad(loss, x, grads)
    logits, grads = x.detach().double().numpy(), grads.double().numpy()[:, None]
    exact = smoothed.prove(logits, fmt, "nan")
    for factor in (1.0, 1.05):
        errors = smoothed.gradient.errors(factor * found.double().numpy(), grads, logits, exact, fmt, Arithmetic())
        assert (errors.errors <= errors.limits).all() == (factor == 1.0)
