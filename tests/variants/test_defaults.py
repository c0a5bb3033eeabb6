"""Defaults that do something: what a function is judged with, what its calls leave out, and what a note says."""

import inspect
from pathlib import Path

import pytest
import torch

from softcheck.variants.meanings import hidden_and_head, left_out
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "defaults.py"
X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))
LOSS, ATTENTION = "operation=cross_entropy", "operation=attention"


def loaded(name):
    return load(f"{KERNELS}:{name}")


@pytest.mark.parametrize(
    ("name", "parameters", "call"),
    [
        ("of_half_the_temperature", {"scale": 2.0}, ""),
        ("of_half_the_temperature@scale=0.25", {"scale": 0.25}, "f(x, temperature)"),
        ("of_half_the_temperature@scale=1.0", {"scale": 1.0}, "f(x, temperature)"),
        ("of_half_the_temperature(x)", {"scale": 2.0}, ""),
        ("of_half_the_temperature(x, 1.0)", {}, "f(x, 1.0)"),
        ("of_half_the_temperature(x, temperature=temperature)", {"scale": 0.5}, "f(x, temperature=temperature)"),
        ("of_temperature_and_scale", {"scale": 2.0}, ""),
        ("of_a_word", {}, ""),
        ("of_another_alpha", {}, ""),
        ("Warm", {"scale": 0.5}, ""),
        (f"smoothed@{LOSS}", {"ignore_index": -100.0, "label_smoothing": 0.1}, "f(x, target)"),
        (
            f"smoothed@{LOSS},label_smoothing=0",
            {"ignore_index": -100.0, "label_smoothing": 0},
            "f(x, target, label_smoothing=label_smoothing)",
        ),
        (f"mean@{LOSS}", {"reduction": "mean"}, "f(x, target)"),
        (f"mean@{LOSS},reduction=none", {"reduction": "none"}, "f(x, target, reduction)"),
        (f"causal@{ATTENTION}", {"causal": "top-left"}, "f(q, k, v)"),
        (f"causal@{ATTENTION},causal=", {"causal": ""}, "f(q, k, v, is_causal=False)"),
        (f"by_the_root@{ATTENTION}", {}, "f(q, k, v)"),
        (f"by_the_root@{ATTENTION},head_dim=32", {"head_dim": 32}, "f(q, k, v)"),
        (f"by_the_root@{ATTENTION},scale=0.5", {"scale": 0.5}, "f(q, k, v, scale)"),
        (f"unscaled@{ATTENTION}", {"scale": 1.0}, "f(q, k, v)"),
        (f"in_a_window@{ATTENTION}", {}, "f(q, k, v)"),
        (f"in_a_window_alone@{ATTENTION}", {}, "f(q, k, v)"),
    ],
)
def test_a_default_says_what_a_right_function_computes(name, parameters, call):
    variant = loaded(name)
    assert variant.declaration.parameters == parameters
    exact = variant.operation.yardstick(X.double())
    torch.testing.assert_close(variant.function(X).double(), exact, atol=1e-5, rtol=1e-5)
    assert variant.call == call


@pytest.mark.parametrize("name", ["overlooks_its_temperature", f"by_the_dimension@{ATTENTION}"])
def test_a_wrong_default_shows(name):
    variant = loaded(name)
    assert (variant.function(X).double() - variant.operation.yardstick(X.double())).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("of_half_the_temperature", ["judged with temperature=0.5 (scale=2), its default"]),
        (f"mean@{LOSS}", ["judged with reduction='mean', its default; --declare reduction=VALUE"]),
        ("of_half_the_temperature@scale=2.0", []),
        (
            "of_a_word",
            ["temperature='auto', its default, is no value that softmax is judged with (it is of another type)"],
        ),
        (
            f"smoothed_too_much@{LOSS}",
            ["judged with ignore_index=-100, its default", "label_smoothing=1.5, its default, is no value"],
        ),
        (f"in_a_window@{ATTENTION}", []),
        (f"in_a_window_alone@{ATTENTION}", ["window_size=128, its default, is no value that attention is judged with"]),
        (f"by_the_root@{ATTENTION}", []),
        ("of_another_alpha", []),
    ],
)
def test_a_remark_names_a_default_that_does_something(name, words):
    remarks = loaded(name).remarks
    assert len(remarks) == len(words)
    assert all(any(word in remark for remark in remarks) for word in words)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("by_the_dimension", {"scale": "f(q, k, v, scale=scale)"}),
        ("by_the_root", {}),
        ("wrong_with_any_scale", {}),
    ],
)
def test_a_default_that_is_wrong_where_the_number_is_right_is_told(name, found):
    function = loaded(f"{name}@{ATTENTION}").function
    function(X)
    assert function.doubtful_defaults == found


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("f(x)", ["a", "b"]),
        ("f(x, 1)", ["b"]),
        ("f(x, b=2)", ["a"]),
        ("f[(rows,)](x, 1)", ["b"]),
        ("f(columns)(x, 1)", ["b"]),
        ("f(x.movedim(0, 1)).movedim(0, 1)", ["a", "b"]),
        ("f(*[x, 1])", []),
        ("f(x, **{'a': 1})", []),
    ],
)
def test_parameters_that_a_call_leaves_out(call, names):
    def function(x, a=1, *, b=2): ...

    assert [each.name for each in left_out(list(inspect.signature(function).parameters.values()), call)] == names


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["hidden", "weight", "target"], ("hidden", "weight")),
        (["lin_weight", "_input", "target"], ("_input", "lin_weight")),
        (["hidden_states", "labels", "lm_head_weight"], ("hidden_states", "lm_head_weight")),
        # Class weights stand behind the target, or beside logits.
        (["input", "target", "weight"], None),
        (["logits", "weight", "target"], None),
        (["hidden", "target"], None),
    ],
)
def test_a_head_behind_hidden_states_is_told_from_class_weights(names, found):
    assert hidden_and_head(names) == found
