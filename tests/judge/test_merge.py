"""A whole judged in parts gives the figures of the whole judged at once."""

import msgspec
import numpy as np

from oracles.formats import FLOAT16
from softcheck.cases.recipe import Normal, Put, Recipe
from softcheck.judge.judge import judge
from softcheck.judge.measurement import merge, moved


def test_parts_give_the_figures_of_the_whole():
    recipe = Recipe(Normal(seed=3, scale=3.0), (Put(column=1, value="nan", row=4), Put(column=0, value="-inf", row=5)))
    bits = recipe.bits(40, 33, FLOAT16)
    exact = np.exp(np.float32(1) * bits.view(np.float16).astype(np.float32))
    output = (exact / exact.sum(axis=1, keepdims=True)).astype(np.float16)
    output[7, 3] *= 3
    output[31, 3] *= 5
    wrong = output.view(np.uint16)
    whole = judge(bits, wrong, FLOAT16, with_peaks=True)
    parts = [
        moved(judge(bits[i : i + 8], wrong[i : i + 8], FLOAT16, with_peaks=True), i.__add__) for i in range(0, 40, 8)
    ]
    merged = merge(parts)
    assert len(whole.violations) >= 2
    assert whole.by_distance
    for name in whole.__struct_fields__:
        if name not in {"violations", "ulp_sum"}:
            assert getattr(merged, name) == getattr(whole, name), name
    assert np.isclose(merged.ulp_sum, whole.ulp_sum)
    assert {(v.kind, v.count) for v in merged.violations} == {(v.kind, v.count) for v in whole.violations}
    # Of each kind the first part's witness is kept; its numbers are those of the whole.
    assert all(v.message.startswith(f"row {v.row}") for v in merged.violations)
    in_first_broken_part = judge(bits[:8], wrong[:8], FLOAT16).violations
    assert {v.row for v in merged.violations} == {v.row for v in in_first_broken_part}
    # A declared defect that explains errors up to some share does not explain those of later parts that are larger.
    assert {v.kind: v.share for v in merged.violations} == {v.kind: v.share for v in whole.violations}
    assert merged.max_bound_share is not None
    assert merged.max_bound_share.value in {v.share for v in merged.violations}


def test_a_witness_keeps_its_own_number_in_the_message_of_a_later_part():
    bits = Recipe(Normal(seed=3, scale=3.0)).bits(16, 17, FLOAT16)
    exact = np.exp(bits.view(np.float16).astype(np.float32))
    output = (exact / exact.sum(axis=1, keepdims=True)).astype(np.float16)
    output[9, 3] *= 3
    wrong = output.view(np.uint16)
    whole = judge(bits, wrong, FLOAT16).violations
    part = moved(judge(bits[8:], wrong[8:], FLOAT16), (8).__add__).violations
    assert whole
    assert [(v.kind, v.row, v.message) for v in part] == [(v.kind, v.row, v.message) for v in whole]


def test_the_larger_extreme_and_its_row_are_kept():
    bits = Recipe(Normal(seed=3)).bits(2, 4, FLOAT16)
    low = judge(bits, bits, FLOAT16)
    assert low.max_ulp is not None
    high = msgspec.structs.replace(low, max_ulp=msgspec.structs.replace(low.max_ulp, value=low.max_ulp.value * 2))
    merged = merge([low, moved(high, (100).__add__), low])
    assert merged.max_ulp is not None
    assert merged.max_ulp.row == low.max_ulp.row + 100
    assert merged.rows == 6
