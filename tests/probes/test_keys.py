"""Attention's keys in other orders, behind masks and in parts, and its gradients: right functions are left alone, wrong ones found."""

import math
from pathlib import Path

import pytest
import torch
from probe_helpers import kinds, made_in

from oracles.formats import FORMATS
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.registry import operation
from softcheck.probes import meetings
from softcheck.probes.base import Setting, Subject
from softcheck.probes.registry import load as load_probe
from softcheck.probes.space.plan import Plan
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "attentions.py"


def subject_of(function, dtype="float32"):
    variant = load(f"{KERNELS}:{function}")
    setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
    return Subject(variant, setting, torch.device("cpu"))


def conclude(probe, function, dtype="float32"):
    subject = subject_of(function, dtype)
    found = load_probe(probe)
    return found.conclude([(trial, found.run(subject, trial)) for trial in found.trials(subject.setting)])


@pytest.mark.parametrize(
    ("function", "trials"),
    [
        ("by_heads", 4),
        ("of_three_dimensions", 4),
        ("with_mask", 6),
        ("with_added_mask", 6),
        ("with_bias", 6),
        ("that_selects", 7),
        ("by_length", 2),
        ("with_shared_keys", 2),
        ("logarithms", 4),
        ("capped_with_sinks", 5),
    ],
)
def test_right_functions_are_left_alone(function, trials):
    for dtype in ("float16", "bfloat16", "float32"):
        found = conclude("keys", function, dtype)
        assert found.findings == ()
        assert found.trials == trials


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("bounded_by_the_first_key", "ulp_exceeds_bound"),
        ("masked_after_the_maximum", "row_dependence"),
        ("weighted_by_zero", "row_dependence"),
        ("with_one_sink_for_all", "row_dependence"),
    ],
)
def test_wrong_functions_are_found(function, kind):
    assert kind in kinds(conclude("keys", function))


def test_a_function_of_one_matrix_has_no_such_trials():
    setting = Setting(declaration=load("torch").declaration, dtype="float32", backend="interpreter")
    assert load_probe("keys").trials(setting) == []


def test_one_part_is_right_and_three_lose_keys():
    ways = [f"splits={count}" for count in (1, 2, 3, 7)]
    assert "splits=3" in made_in(subject_of("bounded_by_the_first_key"), "float32", (), *ways)
    assert made_in(subject_of("in_parts"), "float32", (), *ways) == {}


@pytest.mark.parametrize(
    "function",
    [
        "differentiable",
        "by_length",
        "with_shared_keys",
        "of_three_dimensions",
        "with_mask",
        "capped_then_biased",
        "capped_with_sinks",
        "of_longer_values",
    ],
)
def test_right_gradients_by_queries_keys_and_values_keep_their_bound(function):
    for dtype in ("float16", "bfloat16", "float32") if function == "with_shared_keys" else ("float16", "float32"):
        assert made_in(subject_of(function, dtype)) == {}


@pytest.mark.parametrize(
    ("function", "way", "said"),
    [
        ("without_the_mean", "gradient=varying", "gradient by q"),
        ("mean_of_eight_bits", "gradient=varying", "gradient by q"),
        ("last_gradient_lost", "gradient=varying", "gradient by v"),
        ("gradient_taken_for_packed", "gradient=apart", "gradient by"),
        ("expanded_gradient_lost", "gradient=ones expanded", "gradient by"),
        ("answer_gone_after_a_backward", "asked=twice", "gradient by"),
        ("logarithm_of_the_last_forward", "asked=in turn", "gradient by"),
        ("backward_from_the_first_key", "gradient=varying,queries=7", "gradient by"),
        ("gradient_of_queries_that_see_nothing", "gradient=varying,queries=100", "gradient by"),
        ("shared_bias_of_the_last_batch", "asked=by a bias that batches share", "gradient by bias"),
        ("cap_without_its_derivative", "gradient=varying", "gradient by q"),
        ("half_of_the_bias_gradient", "asked=by bias alone", "gradient by bias"),
        ("sink_gradient_of_the_first_batch", "asked=by sinks alone,rows=6", "gradient by sinks"),
        ("hidden_keys_get_a_gradient", "gradient=varying", "gradient by q"),
    ],
)
def test_wrong_gradients_are_found(function, way, said):
    [[violation]] = made_in(subject_of(function), "float32", (), way).values()
    assert violation.kind == "wrong_gradient"
    assert said in violation.message
    plain = {"gradient=varying", *(f"gradient=varying,{part}" for part in way.split(",")[1:])} - {way}
    assert all(made_in(subject_of(function), "float32", (), each) == {} or "twice" in way for each in plain)


def test_a_promised_gradient_that_is_not_there_is_found():
    found = conclude("gradients", "without_a_gradient")
    assert kinds(found) == {"wrong_gradient"}
    assert "backward=True promises one" in found.findings[0].violation.message


@pytest.mark.parametrize("function", ["differentiable", "capped_then_biased", "capped_with_sinks", "with_mask"])
def test_the_plan_of_heads_has_every_way_of_asking(function):
    space = meetings._space_of(subject_of(function))
    ways = Plan(space.axes, space.excluded, [0]).ways(meetings.BUDGETS["normal"].slow)
    for axis in space.axes:
        assert {way.get(axis.name, axis.plain) for way in ways} == {*axis.values}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"causal": "bottom-right", "queries": 5, "groups": 2},
        {"softcap": 2.0},
        {"sink": 0.5, "value_dim": 5},
        {"sink": 0.5, "groups": 2},
        {"biased": 1, "groups": 2},
        {"masked": 1, "softcap": 3.0, "sink": -1.0, "biased": 1},
        *({"sink": sign * far} for far in (699.0, 701.0, 2000.0, 1e30) for sign in (1, -1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["attention", "attention_logsumexp"])
def test_exact_gradients_are_those_of_autograd(name, parameters):
    computed = operation(name, {"head_dim": 16, **parameters})
    # Two heads in each of two batches.
    x = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))
    known = computed.arguments.make.__self__
    q, k, v = (part.double().requires_grad_() for part in known.operands(x))
    leaves, queries = {"q": q, "k": k}, torch.arange(known.parts(9)[0])
    scores = (q @ k.mT) * known.scale
    if known.softcap:
        scores = known.softcap * torch.tanh(scores / known.softcap)
    if known.biased:
        leaves["bias"] = known.bias(x, queries).double().requires_grad_()
        scores = scores + leaves["bias"]
    scores = scores.masked_fill(~known.visible(x, queries), -torch.inf)
    sinks = torch.full((2 * known.groups,), known.sink, dtype=torch.float64).requires_grad_(math.isfinite(known.sink))
    behind = (
        sinks.view(1, 2, known.groups, 1, 1).expand(2, -1, -1, scores.shape[1] // known.groups, 1).reshape(4, -1, 1)
    )
    if sinks.requires_grad:
        leaves["sinks"] = sinks
    scores = torch.cat([scores, behind], dim=-1)
    if name == "attention":
        leaves["v"] = v
        y = torch.softmax(scores, dim=-1)[..., :-1] @ v
    else:
        y = torch.logsumexp(scores, dim=-1, keepdim=True)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).double()
    due = torch.autograd.grad(y, [*leaves.values()], grad)
    constants = model(Arithmetic(), FORMATS["float32"])
    found = computed.operand_gradients(x.double().numpy(), grad.flatten(1).numpy(), FORMATS["float32"], constants)
    assert found.keys() == leaves.keys()
    for leaf, each in zip(leaves, due, strict=True):
        assert abs(found[leaf][0].squeeze() - each.numpy().squeeze()).max() < 1e-13
        # A sink beside which all scores vanish is the log-sum-exp itself, whose rounding a backward may be given.
        assert 0 < found[leaf][1].max() < (1e-2 if name == "attention" or known.sink < 1000 else 20)
