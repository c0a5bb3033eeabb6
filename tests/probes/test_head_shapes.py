"""Attention of other shapes than the declared ones: wrong answers are findings, exceptions and right answers are none."""

import pytest
import torch
from probe_helpers import made_in

from softcheck.probes import meetings
from softcheck.probes.base import Setting, Subject
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.way import Way
from softcheck.variants.registry import load

SDPA = "torch.nn.functional.scaled_dot_product_attention"


def subject_of(tmp_path, body, parameters="", dtype="float32"):
    path = tmp_path / f"kernels{len(list(tmp_path.glob('*.py')))}.py"
    path.write_text(
        f'import torch\nimport softcheck\n@softcheck.variant(operation="attention", call="f(q, k, v)", parameters={{{parameters}}})\n'
        f"def attention(q, k, v):\n{body}",
        encoding="utf-8",
    )
    variant = load(f"{path}:attention")
    setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
    return Subject(variant, setting, torch.device("cpu"))


def axes_of(subject):
    return {axis.name: axis.values for axis in meetings._space_of(subject).axes}


AXES = ("queries", "head_dim")


def test_right_functions_are_left_alone(tmp_path):
    assert made_in(subject_of(tmp_path, f"    return {SDPA}(q, k, v)\n"), "float32", AXES) == {}


CROSS = f"    keys = q.shape[2]\n    return {SDPA}(q, k[:, :, :keys], v[:, :, :keys])\n"


def test_keys_counted_by_queries_are_found_unless_there_are_as_many(tmp_path):
    assert {*made_in(subject_of(tmp_path, CROSS), "float32", AXES)} == {"queries=1", "queries=7"}
    assert "queries" not in axes_of(subject_of(tmp_path, CROSS, '"square": 1'))


@pytest.mark.parametrize(
    ("parameters", "axis"), [('"queries": 5', "queries"), ('"head_dim": 64', "head_dim"), ('"scale": 0.5', "head_dim")]
)
def test_declared_shapes_are_not_varied(tmp_path, parameters, axis):
    subject = subject_of(tmp_path, f"    return {SDPA}(q, k, v, scale=0.5)\n", parameters)
    assert {*AXES} - axes_of(subject).keys() == {axis}


@pytest.mark.parametrize(
    ("condition", "way"),
    [
        ("k.shape[2] > 1024 and q.shape[2] == 1", "columns=1100,queries=1"),
        ("k.shape[2] > 2048 and q.shape[2] == 1", "columns=4100,queries=1"),
        ("k.shape[2] > 1024 and q.shape[2] > 1", "columns=1100"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tile_that_long_heads_lose_is_found(tmp_path, condition, way, dtype):
    body = f"""    if {condition}:
        kept = torch.arange(k.shape[2]) // 64 != 5
        k, v = k[:, :, kept], v[:, :, kept]
    return {SDPA}(q, k, v)
"""
    assert made_in(subject_of(tmp_path, body, dtype=dtype), dtype, (), way)
    assert made_in(subject_of(tmp_path, f"    return {SDPA}(q, k, v)\n", dtype=dtype), dtype, (), way) == {}


def test_the_plan_has_long_heads_and_chunks_behind_a_cache(tmp_path):
    subject = subject_of(tmp_path, f"    return {SDPA}(q, k, v)\n", '"causal": "bottom-right"')
    space = meetings._space_of(subject)
    always = [str(way) for way in space.always]
    assert always[:3] == ["columns=1100", *(f"columns={n},contents=adversarial,queries=1" for n in (1100, 4100))]
    assert always[3:] == [f"columns=99,queries={n}" for n in (96, 98, 93, 86, 78)]


def test_a_last_tile_that_chunks_behind_a_cache_lose_is_found(tmp_path):
    body = f"""    before, keys = k.shape[2] - q.shape[2], k.shape[2]
    seen = torch.ones(q.shape[2], keys, dtype=torch.bool).tril(before)
    if q.shape[2] > 32 and 0 < before < 7:
        seen[:, -1] = False
    return {SDPA}(q, k, v, attn_mask=seen)
"""
    wrong, right = (
        made_in(subject_of(tmp_path, text, '"causal": "bottom-right"'), "float32", (), "columns=99,queries=96")
        for text in (body, body.replace("0 < before < 7", "False"))
    )
    assert wrong
    assert right == {}


def test_longer_heads_than_declared_are_not_tried(tmp_path):
    path = tmp_path / "short.py"
    path.write_text(
        'import softcheck\nimport torch\n@softcheck.variant(operation="attention", call="f(q, k, v)", max_columns=1024)\n'
        f"def attention(q, k, v):\n    return {SDPA}(q, k, v)\n",
        encoding="utf-8",
    )
    variant = load(f"{path}:attention")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    columns = axes_of(Subject(variant, setting, torch.device("cpu")))["columns"]
    assert max(map(int, columns)) <= 1024


def test_a_scale_for_one_dimension_is_found(tmp_path):
    subject = subject_of(tmp_path, f"    return {SDPA}(q, k, v, scale=0.125)\n")
    space = meetings._space_of(subject)
    found = meetings._Part(space, Attempts(space, 0)).of([Way.parse("head_dim=32", space.axes)])
    assert found.ways == ("head_dim=32",)


def test_an_exception_is_no_finding(tmp_path):
    subject = subject_of(tmp_path, f"    assert q.shape == k.shape and q.shape[-1] == 64\n    return {SDPA}(q, k, v)\n")
    space = meetings._space_of(subject)
    ways = [Way.parse(text, space.axes) for text in ("queries=7", "head_dim=32")]
    assert meetings._Part(space, Attempts(space, 0)).of(ways).violations == ()


SHARED = f"""    kv_heads = k.shape[1]
    shared = torch.arange(q.shape[1]) {{rule}}
    return {SDPA}(q, k[:, shared], v[:, shared])
"""


def test_heads_that_share_keys_are_tried_where_the_code_speaks_of_them(tmp_path):
    right = subject_of(tmp_path, SHARED.format(rule="// (q.shape[1] // kv_heads)"))
    assert axes_of(right)["groups"] == ("as declared", "2", "3", "17")
    assert made_in(right, "float32", ("groups",)) == {}
    in_turn = subject_of(tmp_path, SHARED.format(rule="% kv_heads"))
    assert {*made_in(in_turn, "float32", ("groups",))} == {"groups=2", "groups=3", "groups=17"}
    assert "groups" not in axes_of(subject_of(tmp_path, f"    return {SDPA}(q, k, v)\n"))
