"""No code outside of softcheck/operations asks which operation it has: what sets one apart is a field."""

import ast
from pathlib import Path

import pytest

from softcheck.operations.registry import OPERATIONS

ROOT = Path(__file__).resolve().parents[1] / "softcheck"
NAMING = {
    "cases/families.py": "families of one operation, under its name",
    "variants/builtin/declarations.py": "what each built-in variant computes",
    "variants/evidence.py": "functions of torch",
}
"""Files that name operations and compare no operation with them."""


def named(source):
    """Lines that hold an operation's name as a word of its own, or the name of an operation's constant."""
    constants = {place.rpartition(":")[2] for place in OPERATIONS.values()}
    found = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Constant) and node.value in OPERATIONS)
        or (isinstance(node, ast.Compare) and constants & {getattr(each, "id", "") for each in node.comparators})
    ]
    return sorted(set(found))


def test_nobody_compares_an_operation_with_a_name():
    files = [file for file in ROOT.rglob("*.py") if not file.is_relative_to(ROOT / "operations")]
    assert len(files) > 150
    found = {str(file.relative_to(ROOT)): named(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in found.items() if lines and name not in NAMING} == {}
    assert all(found[name] for name in NAMING), "a file that names no operation needs no exception"


@pytest.mark.parametrize(
    "planted",
    [
        'if variant.operation.name == "attention": pass',
        'is_sum = declared.operation in {"logsumexp", "cross_entropy"}',
        'of = {"softmax": 1.0, "log_softmax": 0.0}.get(evidence.operation)',
        'match name:\n    case "softmax_backward": pass',
        "if operation is not SOFTMAX: pass",
    ],
)
def test_a_comparison_is_found(planted):
    assert named(planted)


def test_words_are_no_comparison():
    assert named('"""Judges softmax and attention."""\nsaid = "of softmax"\noperation = SOFTMAX') == []
