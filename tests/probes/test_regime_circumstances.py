"""Paths that a wrapper takes in circumstances that its conditions name are tried in these circumstances."""

import pytest
from probe_helpers import conclusion

from softcheck.probes import regime_plans
from softcheck.variants.registry import load

WRAPPER = """
import torch

_calls = {"made": 0}


def right(x):
    return torch.softmax(x, dim=-1)


def softmax(x):
    rows, columns = x.shape
    BODY
    return torch.softmax(x, dim=-1) * (1.25 if is_wrong else 1.0)
"""


def found(tmp_path, body, label):
    file = tmp_path / "wrapper.py"
    file.write_text(WRAPPER.replace("BODY", body), encoding="utf-8")
    function = load(f"{file}:softmax").function
    return [shown.violation.message for shown in conclusion("regimes", function, labels=[label]).findings]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("is_wrong = bool(x.requires_grad and rows > 20)", "with x.requires_grad_(), rows > 20 ("),
        ("is_wrong = True if not torch.is_grad_enabled() else False", "with torch.no_grad(), "),
        (
            "is_wrong = True if isinstance(x, torch.nn.Parameter) and rows > 20 else False",
            "with x = torch.nn.Parameter(x), rows > 20 (",
        ),
        (
            "is_wrong = True if not torch.are_deterministic_algorithms_enabled() and rows > 20 else False",
            "with torch.use_deterministic_algorithms(False), rows > 20 (",
        ),
        (
            "is_wrong = False\n    if x.stride(-1) != 1 and columns > 100: is_wrong = True",
            "with transposed, rows >= 2 and columns > 100 (",
        ),
        (
            "odd = x.data_ptr() % 16 != 0\n    is_wrong = True if odd and rows == 33 else False",
            "with offset 1, rows = 33 (",
        ),
        ("is_wrong = True if torch.is_autocast_enabled('cpu') else False", "with torch.autocast(dtype=torch.bfloat16)"),
        (
            "is_wrong = True if torch.is_autocast_enabled('cpu') and not torch.is_grad_enabled() else False",
            "with torch.no_grad() + torch.autocast(dtype=torch.bfloat16), ",
        ),
        (
            "is_wrong = True if x.requires_grad and torch.get_default_dtype() == torch.float64 else False",
            "with torch.set_default_dtype(torch.float64) + x.requires_grad_(), ",
        ),
        ("is_wrong = True if x.numel() and x.max() < -50.0 else False", "with largest logits below -50 ("),
        ("is_wrong = True if x.numel() and torch.isneginf(x).any(-1).all() else False", "with a -inf in each row ("),
        (
            "is_wrong = True if torch.compiler.is_compiling() else False",
            'with torch.compile(backend="eager"), no special',
        ),
        ("_calls['made'] += 1\n    is_wrong = True if _calls['made'] > 9 else False", "with 11 calls in a row ("),
    ],
)
def test_a_circumstance_that_a_condition_names_is_tried(tmp_path, body, words):
    messages = found(tmp_path, body, "circumstances")
    assert any(message.startswith(words) for message in messages), messages


@pytest.mark.parametrize(
    ("condition", "words"),
    [("rows == columns", "rows = columns"), ("rows % 7 == 3", "rows % 7 == 3")],
)
def test_a_condition_on_both_sizes_or_on_a_remainder_is_met(tmp_path, condition, words):
    messages = found(tmp_path, f"is_wrong = True if {condition} else False", "regimes")
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(
    "body",
    [
        "is_wrong = False\n    if x.stride(-1) != 1 or x.requires_grad: return right(x.contiguous())",
        "is_wrong = False\n    if torch.isinf(x).any() or torch.is_autocast_enabled('cpu'): return right(x)",
    ],
)
def test_right_paths_are_left_alone(tmp_path, body):
    assert found(tmp_path, body, "circumstances") == []


def test_a_slow_compilation_leaves_time_for_other_kinds_of_rows(tmp_path, monkeypatch):
    monkeypatch.setitem(regime_plans._SHARES, "circumstances", 0.05)
    body = """is_wrong = False
    if torch.compiler.is_compiling():
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)"""
    messages = found(tmp_path, body, "circumstances")
    # The first call is of rows that the formula gets right.
    assert any("a +inf in each row" in message for message in messages), messages
