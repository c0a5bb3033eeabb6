"""Functions of any signature: which call is recognised, what a declared call does, and what is said where none is known."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import softcheck
from softcheck.errors import TooManyRowsError, UsageError
from softcheck.variants.adapt import operands_of
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import load, resolve, split_call, with_call

KERNELS = Path(__file__).parents[1] / "kernels" / "signatures.py"
X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))
EXACT = torch.softmax(X, -1)

RECOGNISED = {
    "with_dim": "f(x, -1)",
    "with_default_dim": "f(x, dim=-1)",
    "with_axis_by_name": "f(x, axis=-1)",
    "with_scale_and_mask": "f(x, scale, None, False)",
    "out_keyword": "f(x, out=out)",
    "out_last": "f(x, out)",
    "out_first_and_sizes": "f(out, x, rows, columns)",
    "unnamed_out_last": "f(x, out)",
    "unnamed_out_first": "f(out, x)",
    "unnamed_dimension": "f(x, -1)",
    "four_dimensions": "f(x4)",
    "three_dimensions_and_dim": "f(x3, -1)",
    "with_maxima": "f(x)[0]",
    "maxima_first": "f(x)[1]",
    "in_place": "f(copy)",
    "Function": "",
    "FunctionOfDim": "f(x, -1)",
    "Module": "",
    "module": "",
    "WithForward": "",
    "WithApply": "f(x, -1)",
    "without_signature": "f(x, -1)",
    "torchs_own": "f(x, dim=-1)",
    "with_four_strides": "f(out, x, out.stride(0), out.stride(1), x.stride(0), x.stride(1), rows, columns)",
    "row_alone": "f(x1)",
    "row_into_output": "f(x1, out, columns)",
    "five_dimensions": "f(x5)",
    "over_rows": "f(x.mT).mT",
    "over_second_of_three": "f(x3.movedim(-1, 1)).movedim(1, -1)",
    "over_channels": "f(x4.movedim(-1, 1)).movedim(1, -1)",
    "softmax_": "f(copy)",
    "pair": "f((x, out))",
    "returns_dictionary": "f(x)['output']",
    "returns_named": "f(x)[1]",
    "returns_dataclass": "f(x).probs",
    "with_required_mask": "f(x, mask)",
    "with_added_mask": "f(x, bias, scale)",
    "with_temperatures": "f(x, torch.ones(rows, device=x.device))",
    "with_any_arguments": "f(x, -1)",
    "with_dim_bound": "",
    "registered": "f(x, -1)",
    "registered_out": "f(out, x)",
    "operator": "f(x, -1, False)",
    "OfWidth": "f(columns).to(x.device).eval()(x)",
    "Caller": "f(columns)(x)",
    "Positional": "f(x, None, False, False)",
    "apply": "f(x, None, False, False)",
    "closure": "",
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def spec(name):
    return f"{KERNELS}:{name}"


def exact(variant):
    """The answer for X with the scale that a function without a default for it is judged with."""
    assert variant.operation.parameters["scale"] == (0.5 if "scale" in variant.call else 1.0)
    return torch.softmax(X * variant.operation.parameters["scale"], -1)


@pytest.mark.parametrize("name", RECOGNISED)
def test_call_is_recognised(name):
    variant = load(spec(name))
    before = X.clone()
    found = variant.function(X)
    torch.testing.assert_close(found, exact(variant), rtol=1e-6, atol=0)
    assert torch.equal(X, before)
    assert variant.call == RECOGNISED[name]


@pytest.mark.parametrize("name", RECOGNISED)
def test_recognised_call_can_be_typed_and_is_then_taken(name):
    typed = load(with_call(spec(name), RECOGNISED[name] or "f(x)"))
    torch.testing.assert_close(typed.function(X), exact(typed), rtol=1e-6, atol=0)
    assert (typed.call, typed.function.is_given) == (RECOGNISED[name], True)


def test_call_is_kept_for_inputs_that_the_function_refuses():
    function = load(spec("four_dimensions")).function
    assert torch.equal(function(X), EXACT)
    with pytest.raises(IndexError):
        function(torch.tensor(1.0))


@pytest.mark.parametrize("name", ["four_dimensions", "returns_named", "with_required_mask"])
def test_a_process_that_is_told_the_call_makes_no_trial(name, monkeypatch):
    first = load(spec(name))
    monkeypatch.setattr("softcheck.variants.adapt.Adapted.tried", None)
    told = load(spec(name), first.fact)
    assert (told.call, told.declaration) == (first.call, first.declaration)
    assert torch.equal(told.function(X), first.function(X))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("of_another_table", "of_another_table(x, table) can't be called with one matrix"),
        ("of_three_unknown", "return of_three_unknown(x, weights=..., table=...)"),
        ("NeedsSizes", "return NeedsSizes(heads=..., depth=...)(x)"),
        ("Nothing", "is a class that can't be used: its objects can't be called"),
        ("kernel_with_a_table", "kernel_with_a_table[(rows,)](out, x, table_ptr=..., n_cols=columns)"),
    ],
)
def test_what_cannot_be_guessed_is_refused_with_a_wrapper_to_paste(name, words):
    with pytest.raises(UsageError) as caught:
        load(spec(name)).function(X)
    assert words in str(caught.value)
    assert f"from signatures import {name}" in str(caught.value)
    # A wrapper of the function's own name would call itself.
    assert "    def wrapped(x: torch.Tensor) -> torch.Tensor:" in str(caught.value)


def test_function_that_writes_nothing_is_left_as_it_is():
    assert load(spec("nothing")).function(X) is None


def test_first_error_is_raised_where_no_other_call_answers(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def softmax(x):\n    raise ValueError(f'{x.dim()} dimensions')")
    with pytest.raises(ValueError, match="2 dimensions"):
        load(f"{file}:softmax").function(X)


def test_names_are_split_from_calls():
    assert split_call("a/b.py:f(x, dim=-1)") == ("a/b.py:f", "(x, dim=-1)")
    assert split_call("p.q:k[(rows,)](out, x)") == ("p.q:k", "[(rows,)](out, x)")
    assert split_call("torch") == ("torch", "")
    assert split_call("odd(1)/b.py:f") == ("odd(1)/b.py:f", "")
    assert resolve(spec("out_last(x,  out)")).name == spec("out_last(x, out)")
    assert with_call("a.py:g", "f(out, x)[0]") == "a.py:g(out, x)[0]"


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("a.py:g", "f(z)", "does not call f on the input"),
        ("a.py:g", "f(x", "no Python expression"),
        ("a.py:g", "f(x, tagret)", "has 'tagret', which is no name in it; did you mean 'target'"),
        ("a.py:g", "torch.exp(f(x))", "does not begin with f"),
        ("a.py:g(x)", "f(x)", "says how it is called already"),
        ("torch", "f(x)", "is built-in"),
    ],
)
def test_calls_that_are_none_are_refused(name, call, words):
    with pytest.raises(UsageError) as caught:
        with_call(name, call)
    assert words in str(caught.value)


LAUNCHES = {
    "kernel": "f[rows,](out, x, x.stride(0), out.stride(0), columns, block)",
    "tuned_kernel": "f[rows,](out, x, x.stride(0), out.stride(0), rows, columns)",
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_kernel_is_launched_with_a_program_for_each_row_where_its_arguments_tell(name):
    code = (
        f"import torch; from softcheck.variants.registry import load; x = torch.randn(3, 5)\n"
        f"for spec in ({spec(name)!r}, {spec(name + LAUNCHES[name][1:])!r}):\n"
        "    variant = load(spec); y = variant.function(x); assert torch.allclose(y, torch.softmax(x, -1)), y\n"
        f"    assert variant.call == {LAUNCHES[name]!r}, variant.call"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_class_is_made_by_the_call_or_before_it():
    typed = [
        load(spec(call)).function(X) for call in ("Caller(columns)(x)", "OfWidth(columns, mask=None)(x)", "Module(x)")
    ]
    assert all(torch.equal(y, EXACT) for y in typed)


def test_more_rows_than_a_function_of_one_row_is_called_on_are_refused():
    function = load(spec("row_alone")).function
    assert torch.equal(function(X[:0]), X[:0])
    with pytest.raises(TooManyRowsError, match="4097 rows for a function of one row, which is called with up to 4096"):
        function(torch.zeros(4097, 1))


def test_wrong_function_is_called_as_it_stands(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def halved(x):\n    return x.softmax(-1) / 2\ndef into(x, out):\n    out.copy_(x.softmax(-1) / 2)\n"
    )
    assert torch.equal(load(f"{file}:halved").function(X), EXACT / 2)
    assert torch.equal(load(f"{file}:into").function(X), EXACT / 2)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (torch.softmax, {"args": [-1]}),
        (lambda x, *, d: torch.softmax(x, d), {"kwargs": {"d": -1}}),
        (lambda o, x: o.copy_(torch.softmax(x, -1)), {"out": "first"}),
        (lambda x, d, o: torch.softmax(x, d, out=o), {"args": (-1,), "out": "last"}),
        (lambda x, out: torch.softmax(x, -1, out=out), {"out": "kw", "dims": 4}),
        (lambda x: (x, x, torch.softmax(x, -1)), {"returns": 2, "dims": 3}),
    ],
)
def test_adapt(function, options):
    assert torch.equal(softcheck.adapt(function, **options)(X), EXACT)


def test_adapted_function_of_a_module_is_a_variant_with_its_promises(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch, softcheck\n"
        "softmax = softcheck.variant(dtypes=['fp16'])(softcheck.adapt(torch.softmax, args=[-1]))\n"
        "@softcheck.variant(call='f(out, x)', max_columns={'half': 9})\n"
        "def other(a, b): a.copy_(torch.softmax(b, -1))\n"
    )
    adapted, declared = load(f"{file}:softmax"), load(f"{file}:other")
    assert torch.equal(adapted.function(X), EXACT)
    assert (adapted.declaration.dtypes, adapted.call) == (("float16",), "f(x, -1)")
    assert torch.equal(declared.function(X), EXACT)
    assert declared.declaration.column_limit("float16") == 9


def test_adapt_refuses_other_values():
    with pytest.raises(UsageError, match="dims is 6"):
        softcheck.adapt(torch.softmax, dims=6)


@pytest.mark.parametrize("strides", [(9, 1), (20, 2), (1, 6), (0, 1), (1, 1)])
def test_in_place_is_computed_on_a_copy_with_the_same_strides(strides):
    storage = torch.randn(200)
    x = storage.as_strided((6, 9), strides)
    before = storage.clone()
    variant = load(spec("in_place"))
    for _ in range(2):
        output = variant.function(x)
        assert torch.equal(output, torch.softmax(x, -1))
        assert torch.equal(storage, before)
    assert output.stride() == strides or strides in ((0, 1), (1, 1))


def test_adapted_function_promises_gradients():
    assert declaration_of(softcheck.adapt(torch.softmax, args=[-1], backward=True)).backward is True
    assert declaration_of(softcheck.adapt(torch.softmax, args=[-1])).backward is None


def test_call_in_place_carries_no_gradient_that_autograd_could_mistake():
    assert not load(spec("in_place")).function(X.clone().requires_grad_()).requires_grad


def test_call_is_recognised_on_an_input_that_requires_a_gradient():
    x = X.clone().requires_grad_()
    load(spec("four_dimensions")).function(x).sum().backward()
    assert x.grad is not None


def test_operands_of_a_call_are_named():
    masked = load(f"{KERNELS}:with_required_mask").function
    assert operands_of(masked) & {"mask", "keep", "bias"}
    assert not operands_of(load(f"{KERNELS}:with_dim").function)
    assert not operands_of(torch.softmax)


LOSSES = KERNELS.with_name("row_answers.py")
ATTENTIONS = KERNELS.with_name("attentions.py")


def test_what_a_function_can_not_be_called_without_is_judged_at_a_value_that_tells():
    loss = load(f"{LOSSES}:with_options@operation=cross_entropy")
    assert loss.declaration.parameters == {"ignore_index": -100.0, "label_smoothing": 0.1}
    exact = loss.operation.yardstick(X)
    torch.testing.assert_close(loss.function(X), exact.float())
    assert loss.call == "f(x, target, ignore_index, label_smoothing)"
    declared = load(f"{LOSSES}:with_options@operation=cross_entropy,label_smoothing=0.3")
    assert declared.declaration.parameters == {"ignore_index": -100.0, "label_smoothing": 0.3}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (f"{KERNELS}:with_scale_and_mask", {"scale": 0.5}),
        (f"{KERNELS}:with_required_mask", {}),
        (f"{ATTENTIONS}:with_mask_of_padding", {"head_dim": 16.0, "masked": 1.0}),
        (f"{ATTENTIONS}:that_overlooks_its_bias", {"head_dim": 16.0, "biased": 1.0}),
        (f"{ATTENTIONS}:that_overlooks_its_sinks", {"head_dim": 16.0, "sink": 1.0}),
        (f"{ATTENTIONS}:by_heads(q, k, v, bias)", {"head_dim": 16.0, "biased": 1.0}),
        (f"{ATTENTIONS}:with_added_mask", {"head_dim": 16.0, "masked": 1.0}),
        (f"{ATTENTIONS}:with_mask_of_padding@masked=0", {"head_dim": 16.0, "masked": 0.0}),
        (f"{ATTENTIONS}:with_mask", {"head_dim": 16.0, "masked": 1.0}),
    ],
)
def test_operands_imply_parameters_that_nobody_declares(name, parameters):
    assert load(name).declaration.parameters == parameters


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            f"{LOSSES}:with_options@operation=cross_entropy",
            {"softcap": ("--declare softcap=30",)},
        ),
        (f"{LOSSES}:with_options@operation=cross_entropy,softcap=5", {}),
        (f"{LOSSES}:ignoring@operation=cross_entropy", {}),
        (f"{LOSSES}:with_smoothing@operation=cross_entropy", {"label_smoothing": ("--declare label_smoothing=0.1",)}),
        (f"{ATTENTIONS}:by_length", {}),
        (f"{ATTENTIONS}:with_what_is_hidden", {}),
        (
            f"{ATTENTIONS}:by_length@causal=",
            {"causal": ("--declare causal=top-left",)},
        ),
        (f"{KERNELS}:with_dim", {}),
        (
            f"{KERNELS}:with_optional_mask",
            {"mask": ("--call 'f(x, mask=mask)'",), "scale": ("--declare scale=0.5",)},
        ),
        (f"{KERNELS}:with_optional_mask(x)", {}),
    ],
)
def test_parameters_that_do_nothing_in_a_call_are_named_with_what_would_have_them_judged(name, found):
    untried = load(name).function.untried
    assert {parameter: tuple(one.option for one in choices) for parameter, choices in untried.items()} == found


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("with_optional_mask", ["mask"]),
        ("KeepsWhereTrue", ["keep"]),
        ("with_optional_bias", ["bias"]),
        ("with_optional_mask_overlooked", ["mask", "keep", "bias"]),
    ],
)
def test_the_meaning_of_an_optional_mask_that_is_right_on_a_trial_is_proposed(name, texts):
    function = load(spec(name)).function
    assert function.call == ""
    proposed = [re.search(r"mask=(\w+)", one.call)[1] for one in function.untried["mask"]]
    assert sorted(proposed) == sorted(texts)


def test_calls_of_which_none_was_right_are_named_beside_the_one_that_is_taken():
    wrong, right = (load(f"{KERNELS}:{name}").function for name in ("with_mask_of_zeros", "with_required_mask"))
    assert {wrong.call, *wrong.others} == {"f(x, mask)", "f(x, keep)", "f(x, bias)"}
    assert len(wrong.others) == 2
    assert right.others == ()


def test_operands_of_another_operation_are_refused_with_the_operations_own():
    with pytest.raises(UsageError, match="softmax takes bias, keep, mask beside its input"):
        load(spec("with_required_mask(x, target)"))
    with pytest.raises(UsageError, match="cross_entropy takes head, target"):
        load(f"{spec('with_required_mask(x, mask)')}@operation=cross_entropy")
