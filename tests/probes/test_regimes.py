"""Paths that a wrapper takes for some shapes only are tried, and the finding says for which shapes it holds."""

import pytest
import torch
from probe_helpers import conclusion, conclusion_of_source, kinds

from softcheck.contract import FindingKind
from softcheck.variants.declaration import variant


def right(x):
    return torch.softmax(x, dim=-1)


def first_logit_subtracted(x):
    weights = torch.exp((x - x[:, :1]).float())
    return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)


def one_row(x):
    return first_logit_subtracted(x) if len(x) == 1 else right(x)


def many_elements(x):
    return right(x) * 1.125 if x.numel() > 1 << 17 else right(x)


def odd_number_of_tiles(x):
    """Beyond 3000 columns an odd last tile of 500 is left out of the sum."""
    columns = x.shape[1]
    if columns <= 3000 or -(-columns // 500) % 2 == 0:
        return right(x)
    weights = torch.exp((x - x.amax(dim=1, keepdim=True)).float())
    kept = (columns - 1) // 500 * 500
    return (weights / weights[:, :kept].sum(dim=1, keepdim=True)).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_right_function_is_left_alone(dtype):
    found = conclusion("regimes", right, dtype, labels=["widths"])
    assert found.findings == ()
    assert found.trials == 1


@pytest.mark.parametrize("label", ["regimes", "widths", "tiles", "elements", "anywhere"])
def test_no_wider_rows_than_declared_are_tried(label):
    @variant(max_columns=300)
    def narrow(x):
        # A plan multiplies the numbers 128, 256 and 1024, too.
        assert x.shape[1] <= 300
        return right(x)

    assert conclusion("regimes", narrow, labels=[label]).findings == ()


def test_a_path_for_one_row():
    found = conclusion("regimes", one_row, labels=["single-rows"])
    assert kinds(found) >= {"nan_mismatch"}
    assert all("rows = 1" in shown.violation.message for shown in found.findings)


def test_a_path_for_many_elements():
    found = conclusion("regimes", many_elements, "float16", labels=["elements"])
    [first] = [shown.violation for shown in found.findings if shown.violation.kind is FindingKind.SUM_VIOLATION]
    assert first.message.startswith("elements >")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_tile_left_out_where_their_number_is_odd(dtype):
    found = conclusion("regimes", odd_number_of_tiles, dtype, labels=["tiles"])
    assert kinds(found) & {"ulp_exceeds_bound", "sum_violation"}


@pytest.mark.parametrize(
    ("condition", "words"),
    [("rows == columns", "rows = columns"), ("rows % 7 == 3", "rows % 7 == 3")],
)
def test_a_condition_on_both_sizes_or_on_a_remainder_is_met(tmp_path, condition, words):
    source = f"""
import torch


def softmax(x):
    rows, columns = x.shape
    is_wrong = True if {condition} else False
    return torch.softmax(x, dim=-1) * (1.25 if is_wrong else 1.0)
"""
    messages = [shown.violation.message for shown in conclusion_of_source("regimes", tmp_path, source).findings]
    assert any(words in message for message in messages), messages
