"""Functions of any signature: which call is recognised, what a declared call does, and what is said where none is known."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import softcheck
from softcheck.errors import UsageError
from softcheck.variants.registry import load, resolve, split_call, with_call

KERNELS = Path(__file__).parents[1] / "kernels" / "signatures.py"
X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))
EXACT = torch.softmax(X, -1)

RECOGNISED = {
    "with_dim": "f(x, -1)",
    "with_default_dim": "f(x, dim=-1)",
    "with_axis_by_name": "f(logits, axis=-1)",
    "with_scale_and_mask": "f(x, 1.0, None, False)",
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
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def spec(name):
    return f"{KERNELS}:{name}"


@pytest.mark.parametrize("name", RECOGNISED)
def test_call_is_recognised(name):
    variant = load(spec(name))
    before = X.clone()
    assert torch.equal(variant.function(X), EXACT)
    assert torch.equal(X, before)
    assert variant.call == RECOGNISED[name].replace("logits", "x")


@pytest.mark.parametrize("name", RECOGNISED)
def test_recognised_call_can_be_typed_and_is_then_taken(name):
    recognised = load(spec(name))
    recognised.function(X)
    typed = load(recognised.spec)
    assert torch.equal(typed.function(X), EXACT)
    assert typed.spec == recognised.spec


def test_call_is_kept_for_inputs_that_the_function_refuses():
    function = load(spec("four_dimensions")).function
    assert torch.equal(function(X), EXACT)
    with pytest.raises(IndexError):
        function(torch.tensor(1.0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("of_another_table", "of_another_table(x, table) can't be called with one matrix"),
        ("of_three_unknown", "return of_three_unknown(x, weights=..., table=...)"),
        ("NeedsSizes", "return NeedsSizes(heads=..., depth=...)(x)"),
        ("Nothing", "is a class that can't be used: its objects can't be called"),
        ("kernel", "kernel[(rows,)](out, x, x.stride(0), out.stride(0), columns, block)"),
    ],
)
def test_what_cannot_be_guessed_is_refused_with_a_wrapper_to_paste(name, words):
    with pytest.raises(UsageError) as caught:
        load(spec(name)).function(X)
    assert words in str(caught.value)
    assert f"from signatures import {name}" in str(caught.value)


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
        ("a.py:g", "f(y)", "does not call f on the input"),
        ("a.py:g", "f(x", "no Python expression"),
        ("a.py:g", "torch.exp(f(x))", "does not begin with f"),
        ("a.py:g(x)", "f(x)", "says how it is called already"),
        ("torch", "f(x)", "is built-in"),
    ],
)
def test_calls_that_are_none_are_refused(name, call, words):
    with pytest.raises(UsageError) as caught:
        with_call(name, call)
    assert words in str(caught.value)


def test_kernel_is_a_variant_with_the_call_that_launches_it():
    call = "kernel[(rows,)](out, x, x.stride(0), out.stride(0), columns, block)"
    code = (
        f"import torch; from softcheck.variants.registry import load; x = torch.randn(3, 5); "
        f"y = load({spec(call)!r}).function(x); assert torch.allclose(y, torch.softmax(x, -1)), y"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    with pytest.raises(UsageError, match="dims is 5"):
        softcheck.adapt(torch.softmax, dims=5)


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
