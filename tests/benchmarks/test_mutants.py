"""The mutator: every operator changes valid Python into other valid Python, always the same, and nothing that can't matter."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = '''"""A module."""

import torch
import triton
import triton.language as tl

TILE = 64


def unreached(a, b):
    return a + b


@triton.jit
def kernel(y, x, rows: tl.tensor, n, B: tl.constexpr):
    """Words 1 + 1."""
    c = tl.arange(0, B)
    ok = (c < n) & (n > 3)
    top = -float("inf")
    total = 0.0
    for k in range(0, n, B):
        v = tl.load(x + k + c, mask=ok, other=0.0).to(tl.float32)
        top = tl.maximum(top, tl.max(v, axis=0))
        total += tl.sum(tl.exp(tl.where(ok, v - top, 1.0)))
    tl.store(y + c, total, mask=ok)


def entry(x):
    if not x.numel() or x.shape[0] > 10:
        raise ValueError(f"{x.shape[0] + 1} rows")
    y = torch.zeros(x.shape, dtype=x.dtype)
    grid = (triton.cdiv(x.shape[0], 2),)
    kernel[grid](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y
'''


@pytest.fixture(scope="module")
def mutator():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(mutator):
    return mutator.mutants(SOURCE, "entry", "example")


def test_every_operator_makes_other_valid_python(mutator, found):
    assert {mutant.operator for mutant in found} == set(mutator.OPERATORS)
    texts = [ast.dump(ast.parse(mutant.text)) for mutant in found]
    assert len(set(texts)) == len(texts)
    assert ast.dump(ast.parse(SOURCE + "\n\nsoftmax = entry\n")) not in texts


def test_mutants_are_the_same_each_time(mutator, found):
    assert mutator.mutants(SOURCE, "entry", "example") == found
    assert len({mutant.name for mutant in found}) == len(found)


def test_each_mutant_changes_one_place(found):
    for mutant in found:
        removed = [line for line in mutant.diff.splitlines()[2:] if line.startswith("-")]
        assert len(removed) == 1, mutant.diff
        assert SOURCE.splitlines()[mutant.line - 1] in removed[0] or mutant.operator == "condition", mutant.diff


@pytest.mark.parametrize(
    "words",
    ["Words 1 + 1.", "return a + b", 'raise ValueError(f"{x.shape[0] + 1} rows")', "rows: tl.tensor", "num_warps=4"],
)
def test_what_cannot_matter_is_left_alone(found, words):
    assert words in SOURCE
    assert [
        mutant.diff for mutant in found if words not in mutant.text and mutant.operator != "statement_dropped"
    ] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c < n", "c <= n"),
        ("tl.arange(0, B)", "tl.arange(1, B)"),
        ("triton.cdiv(x.shape[0], 2)", "((x.shape[0]) // (2))"),
        ("other=0.0", "other=-1.0"),
        ("tl.maximum(top, ", "tl.minimum(top, "),
        ("range(0, n, B)", "range(0, (n - B), B)"),
        ("*x.stride()", "*x.stride()[::-1]"),
        ("total += tl.sum", "total = tl.sum"),
        ("tl.where(ok, v - top, 1.0)", "tl.where(ok, 1.0, v - top)"),
        (".to(tl.float32)", ""),
        (".to(tl.float32)", ".to(tl.float16)"),
        ("TILE = 64", "TILE = 128"),
        ("y = torch.zeros(x.shape, dtype=x.dtype)", "pass"),
    ],
)
def test_slips_of_the_pen_are_among_them(found, before, after):
    line = next(line for line in SOURCE.splitlines() if before in line)
    wanted = _bare(line.replace(before, after))
    assert wanted in {_bare(line) for mutant in found for line in mutant.text.splitlines()}


def _bare(line):
    """A line without what the mutator adds for the parser's sake."""
    return "".join(line.split()).replace("(", "").replace(")", "")
