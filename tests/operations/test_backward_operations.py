"""Backwards as operations of their own: oracles, bounds, and functions that are right and wrong."""

import json
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from oracles.formats import FLOAT16, FLOAT32, FLOAT64, FORMATS
from softcheck.cli.main import cli
from softcheck.operations import drawn
from softcheck.operations.backward import grads_of
from softcheck.operations.registry import operation
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "backwards.py"
NAMES = ("softmax_backward", "log_softmax_backward")


def given(name, values, dtype):
    made = operation(name).arguments.make(torch.from_numpy(values).to(dtype), frozenset({"y", "grad"}))
    return made["y"].double().numpy(), made["grad"].double().numpy()


def exact_row(name, y, g):
    with mpmath.workdps(60):
        p = [mpmath.exp(mpmath.mpf(one)) if name.startswith("log") else mpmath.mpf(one) for one in y]
        g = [mpmath.mpf(one) for one in g]
        if name.startswith("log"):
            return [grad - one * mpmath.fsum(g) for one, grad in zip(p, g, strict=True)]
        total = mpmath.fsum(one * grad for one, grad in zip(p, g, strict=True))
        return [one * (grad - total) for one, grad in zip(p, g, strict=True)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("fmt", "dtype"), [(FLOAT64, torch.float64), (FLOAT32, torch.float32), (FLOAT16, torch.float16)]
)
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0])
def test_oracles_keep_their_stated_error(name, fmt, dtype, spread):
    values = np.random.default_rng(0).normal(0, spread, (24, 33)).astype(np.float16).astype(np.float64)
    values[1, ::2] = -np.inf
    y, g = given(name, values, dtype)
    for answer in (operation(name).answer(values, fmt, "nan"), operation(name).prove(values, fmt, "nan")):
        for row in range(len(values)):
            for column, expected in enumerate(exact_row(name, y[row], g[row])):
                with mpmath.workdps(60):
                    found = mpmath.mpf(answer.high[row, column]) + mpmath.mpf(answer.low[row, column])
                    size = 2.0**-53 * (abs(mpmath.mpf(g[row, column])) + np.abs(g[row]).sum())
                    allowed = answer.relative_error[row, column] * abs(found)
                    # Next to 0 the stated error is one of the terms.
                    assert abs(found - expected) <= max(allowed * (1 + mpmath.mpf(2) ** -40), 0 if found else 40 * size)


def test_a_row_keeps_its_gradients_wherever_it_stands_and_they_are_of_every_kind():
    x = torch.randn(400, 33, generator=torch.Generator().manual_seed(0)).half()
    grads = grads_of(x)
    assert torch.equal(grads_of(x.flip(0)[:40]), grads.flip(0)[:40])
    assert torch.equal(grads_of(x.float()[:40]).half(), grads[:40])
    spread = grads.float().std(dim=1)
    assert (spread == 0).sum() > 40
    assert (spread > 90).sum() > 20
    assert ((grads != 0).sum(dim=1) == 1).sum() > 20
    assert (spread.sub(0.57).abs() < 0.2).sum() > 100


def test_operands_lie_as_autograd_gives_them():
    make = operation("softmax_backward").arguments.make
    names = frozenset({"y", "grad"})
    x = torch.randn(6, 34, generator=torch.Generator().manual_seed(0))
    packed, strided, expanded = x, x[:, ::2], x[:1].expand(6, 34)
    numbers = [torch.full((3, 34), float(seed)) for seed in range(8)]
    shown = {
        name: make(each, names) for name, each in (("packed", packed), ("strided", strided), ("expanded", expanded))
    }
    assert shown["packed"]["grad"].is_contiguous()
    assert shown["packed"]["y"].is_contiguous()
    assert shown["strided"]["y"].stride() == strided.stride()
    assert shown["strided"]["grad"].stride() not in {strided.stride(), (17, 1)}
    assert shown["expanded"]["grad"].stride() == shown["expanded"]["y"].stride() == (0, 1)
    assert {make(each, names)["grad"].stride() for each in numbers} == {(0, 0)}
    rows = torch.arange(12.0)[:, None].expand(12, 34).contiguous()
    assert make(rows, names)["grad"].stride() == (1, 0)
    for given, each in ((packed, shown["packed"]), (strided, shown["strided"]), (expanded, shown["expanded"])):
        again = make(given.contiguous(), names)
        assert all(torch.equal(each[name], again[name]) for name in names)


@pytest.mark.parametrize("name", ["takes_grad_for_packed", "takes_y_for_packed"])
def test_operands_taken_for_packed_are_found(name):
    code, result = reported(name, "softmax_backward", "--family", "uniform", "--probe", "layouts", "--quick")
    assert code == 1
    assert {finding["kind"] for finding in result["findings"]} & {"raised", "wrong_layout", "ulp_exceeds_bound"}


def reported(name, computed, *options, dtype="float32"):
    arguments = ["report", "--variant", f"{KERNELS}:{name}", "--operation", computed, "--dtype", dtype]
    arguments += ["--declare", f"dtypes={dtype}"]
    found = CliRunner().invoke(cli, [*arguments, "--device", "interpreter", "--format", "json", *options])
    return found.exit_code, json.loads(found.stdout)["variants"][0]


FAMILIES = ("--family", "normal", "--family", "padding", "--family", "ties", "--family", "rows")


@pytest.mark.parametrize(
    ("name", "computed", "call", "dtype"),
    [
        ("softmax_backward", "softmax_backward", "f(grad, y)", "bfloat16"),
        ("with_rounded_products", "softmax_backward", "f(grad, y)", "float16"),
        ("in_another_order", "softmax_backward", "f(grad, y)", "float64"),
        ("into_memory", "softmax_backward", "f(grad, y, out)", "float32"),
        ("log_softmax_backward", "log_softmax_backward", "f(grad, y)", "float64"),
        ("log_softmax_backward", "log_softmax_backward", "f(grad, y)", "bfloat16"),
    ],
)
def test_right_functions_pass(name, computed, call, dtype):
    variant = load(f"{KERNELS}:{name}@operation={computed}")
    assert variant.function(torch.zeros(2, 3)).shape == (2, 3)
    assert variant.call == call
    code, result = reported(name, computed, *FAMILIES, dtype=dtype)
    assert (code, result["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("name", "computed", "dtype"),
    [
        ("without_the_last_column", "softmax_backward", "float64"),
        ("without_the_mean", "softmax_backward", "float16"),
        ("for_gradients_of_one", "softmax_backward", "float64"),
        ("sum_of_the_first_row", "softmax_backward", "float16"),
        ("of_the_mean", "log_softmax_backward", "float64"),
        ("takes_the_output_for_probabilities", "log_softmax_backward", "float16"),
    ],
)
def test_wrong_functions_are_found(name, computed, dtype):
    code, result = reported(name, computed, *FAMILIES, dtype=dtype)
    assert code == 1
    assert "ulp_exceeds_bound" in {finding["kind"] for finding in result["findings"]}


@pytest.mark.parametrize("computed", NAMES)
def test_built_in_variants_keep_their_bounds(computed):
    found = CliRunner().invoke(
        cli, ["report", "--operation", computed, "--device", "interpreter", "--format", "json", *FAMILIES]
    )
    assert found.exit_code == 0, found.output
    verdicts = {(row["dtype"], row["verdict"]) for row in json.loads(found.stdout)["variants"]}
    assert verdicts == {(dtype, "pass") for dtype in FORMATS}


def test_a_known_answer():
    """By hand: y = (1/4, 3/4) and g = (1, 0) give y (g - 1/4) = (3/16, -3/16)."""
    y, g = (Fraction(1, 4), Fraction(3, 4)), (Fraction(1), Fraction(0))
    total = sum(a * b for a, b in zip(y, g, strict=True))
    assert [float(a * (b - total)) for a, b in zip(y, g, strict=True)] == [
        pytest.approx(float(one)) for one in exact_row("softmax_backward", (0.25, 0.75), (1.0, 0.0))
    ]


@pytest.mark.parametrize("name", NAMES)
def test_operands_of_a_large_matrix_are_those_of_its_parts(name, monkeypatch):
    x = torch.randn(70, 129, dtype=torch.float32).to(torch.bfloat16)
    make = operation(name).arguments.make
    whole = make(x, frozenset({"y", "grad"}))
    monkeypatch.setattr(drawn, "_BLOCK", 129 * 20)
    parts = make(x, frozenset({"y", "grad"}))
    for key, operand in whole.items():
        assert torch.equal(operand, parts[key])
        assert torch.equal(operand[16:32], make(x[16:32], frozenset({key}))[key])
