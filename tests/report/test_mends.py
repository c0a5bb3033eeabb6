"""Mends by kind and operation: each speaks of the operation that was judged, and its formula is the gradient."""

import tomllib
from pathlib import Path

import pytest
import torch

import softcheck.explain
from softcheck.cases.corpus import load
from softcheck.contract import FindingKind as Kind
from softcheck.explain import of_kind, words
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import described
from softcheck.report.causes import causes_of
from softcheck.report.model import Finding

CASES = [case for case in load(["edge"]) if case.dtype == "float16" and case.family == "ties"]


def mend(kind, operation):
    found = Finding(id="1", kind=kind, case=CASES[0].id, message="row 0: wrong", reproduce="softcheck")
    (cause,) = causes_of([found], CASES, operation=operation)
    return cause.mend


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_mend_speaks_of_no_other_operation(operation):
    for kind in (Kind.WRONG_GRADIENT, Kind.ULP_EXCEEDS_BOUND, Kind.NAN_MISMATCH, Kind.INF_MISMATCH):
        # A cause without facts names no mend of wrong values; the page of the kind has those that are usual.
        words = of_kind(kind, operation).mend
        assert mend(kind, operation) == (words if kind is Kind.WRONG_GRADIENT else "")
        assert words
        assert ("of softmax it is" in words) == (operation == "softmax" and kind is Kind.WRONG_GRADIENT)
        assert not (operation.endswith("_backward") and "maximum" in words + of_kind(kind, operation).meaning)
    assert ("sum what is stored" in of_kind(Kind.SUM_VIOLATION, operation).mend) == (operation != "log_softmax")
    assert mend(Kind.RAISED, operation) == of_kind(Kind.RAISED).mend


def test_words_name_kinds_probes_and_operations_that_there_are():
    table = Path(softcheck.explain.__file__).with_name("words.toml")
    assert tomllib.loads(table.read_text(encoding="utf-8"))["probes"].keys() == described().keys()
    assert words().kinds.keys() == set(Kind)
    for page in words().kinds.values():
        assert {*page.meanings, *page.mends} <= OPERATIONS.keys()


def formula(operation):
    return of_kind(Kind.WRONG_GRADIENT, operation).mend.partition(" it is ")[2].partition(" with ")[0]


def test_the_formulas_of_gradients_are_what_autograd_computes():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 7, dtype=torch.float64, generator=generator, requires_grad=True)
    target, eps = torch.tensor([2, 0, 6]), 0.1
    functions = {
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "cross_entropy": lambda: torch.nn.functional.cross_entropy(x, target, reduction="none", label_smoothing=eps),
    }
    for name, function in functions.items():
        y = function()
        g = torch.randn(y.shape, dtype=torch.float64, generator=generator)
        (expected,) = torch.autograd.grad(y, x, g)
        names = {
            "y": y,
            "g": g[:, None] if name == "cross_entropy" else g,
            "x": x,
            "softmax": lambda t: torch.softmax(t, -1),
        }
        names |= {"p": torch.softmax(x, -1), "eps": eps, "V": 7, "onehot": torch.nn.functional.one_hot(target, 7)}
        torch.testing.assert_close(eval(formula(name), names), expected)


def test_the_formulas_of_attention_are_what_autograd_computes():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(5, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(3))
    scale = 0.5
    scores = q @ k.T * scale
    p = torch.softmax(scores, -1)
    o = p @ v
    g = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    ds = p * (g @ v.T - (g * o).sum(-1, keepdim=True))
    by_formula = (scale * ds @ k, scale * ds.T @ q, p.T @ g)
    for found, expected in zip(by_formula, torch.autograd.grad(o, (q, k, v), g, retain_graph=True), strict=True):
        torch.testing.assert_close(found, expected)
    of_row = torch.randn(5, dtype=torch.float64, generator=generator)
    ds = of_row[:, None] * p
    for found, expected in zip(
        (scale * ds @ k, scale * ds.T @ q),
        torch.autograd.grad(torch.logsumexp(scores, -1), (q, k), of_row),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)
    for part in (
        "dv = p^T g",
        "ds = p * (g v^T - (g * o).sum(-1, keepdim=True))",
        "dq = scale * ds k",
        "dk = scale * ds^T q",
    ):
        assert part in of_kind(Kind.WRONG_GRADIENT, "attention").mend
