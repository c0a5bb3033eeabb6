"""Attention of other shapes than the declared ones: wrong answers are findings, exceptions and right answers are none."""

import pytest
import torch
from probe_helpers import kinds

from softcheck.probes.base import Setting, Subject
from softcheck.probes.head_shapes import PROBE
from softcheck.variants.registry import load

SDPA = "torch.nn.functional.scaled_dot_product_attention"


def concluded(tmp_path, body, parameters="", dtype="float32"):
    path = tmp_path / f"kernels{len(list(tmp_path.glob('*.py')))}.py"
    path.write_text(
        f'import torch\nimport softcheck\n@softcheck.variant(operation="attention", call="f(q, k, v)", parameters={{{parameters}}})\n'
        f"def attention(q, k, v):\n{body}",
        encoding="utf-8",
    )
    variant = load(f"{path}:attention")
    setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    return PROBE.conclude([(trial, PROBE.run(subject, trial)) for trial in PROBE.trials(setting)])


def test_right_functions_are_left_alone(tmp_path):
    found = concluded(tmp_path, f"    return {SDPA}(q, k, v)\n")
    assert (found.findings, found.trials) == ((), 8)


CROSS = f"    keys = q.shape[2]\n    return {SDPA}(q, k[:, :, :keys], v[:, :, :keys])\n"


def test_keys_counted_by_queries_are_found_unless_there_are_as_many(tmp_path):
    found = concluded(tmp_path, CROSS)
    assert {shown.label for shown in found.findings} <= {"queries/1", "queries/7", "long/one-query"}
    assert "square=1" in found.findings[0].violation.message
    assert concluded(tmp_path, CROSS, '"square": 1').findings == ()
    assert all("queries" in shown.label or shown.label == "long/one-query" for shown in found.findings)


@pytest.mark.parametrize(("parameters", "trials"), [('"queries": 5', 4), ('"head_dim": 64', 5), ('"scale": 0.5', 5)])
def test_declared_shapes_are_not_varied(tmp_path, parameters, trials):
    assert concluded(tmp_path, f"    return {SDPA}(q, k, v, scale=0.5)\n", parameters).trials == trials


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("k.shape[2] > 1024 and q.shape[2] == 1", "with queries=1 and 1100 keys"),
        ("k.shape[2] > 2048 and q.shape[2] == 1", "with queries=1 and 4100 keys"),
        ("k.shape[2] > 1024 and q.shape[2] > 1", "with 1100 keys"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tile_that_long_heads_lose_is_found(tmp_path, condition, words, dtype):
    body = f"""    if {condition}:
        kept = torch.arange(k.shape[2]) // 64 != 5
        k, v = k[:, :, kept], v[:, :, kept]
    return {SDPA}(q, k, v)
"""
    found = concluded(tmp_path, body, dtype=dtype)
    assert words in found.findings[0].violation.message
    promised = body.replace("return", "assert k.shape[2] <= 1000\n    return")
    assert concluded(tmp_path, promised, dtype=dtype).findings == ()


def test_a_last_tile_that_chunks_behind_a_cache_lose_is_found(tmp_path):
    body = f"""    before, keys = k.shape[2] - q.shape[2], k.shape[2]
    seen = torch.ones(q.shape[2], keys, dtype=torch.bool).tril(before)
    if q.shape[2] > 32 and 0 < before < 7:
        seen[:, -1] = False
    return {SDPA}(q, k, v, attn_mask=seen)
"""
    # torch gives a query that sees no key 0, and 100 queries on 70 keys have some.
    wrong, right = (
        [one for one in concluded(tmp_path, text, '"causal": "bottom-right"').findings if one.label != "queries/100"]
        for text in (body, body.replace("0 < before < 7", "False"))
    )
    assert [one.label for one in wrong] == ["queries/behind-a-cache"]
    assert "with queries=96 and 99 keys" in wrong[0].violation.message
    assert right == []


def test_longer_heads_than_declared_are_not_tried(tmp_path):
    path = tmp_path / "short.py"
    path.write_text(
        'import softcheck\n@softcheck.variant(operation="attention", call="f(q, k, v)", max_columns=1024)\ndef attention(q, k, v):\n    ...\n',
        encoding="utf-8",
    )
    setting = Setting(declaration=load(f"{path}:attention").declaration, dtype="float32", backend="cuda")
    assert not any(trial.label.startswith("long") for trial in PROBE.trials(setting))


def test_a_scale_for_one_dimension_is_found(tmp_path):
    found = concluded(tmp_path, f"    return {SDPA}(q, k, v, scale=0.125)\n")
    assert "ulp_exceeds_bound" in kinds(found)
    assert all(shown.label.startswith("head_dim") for shown in found.findings)


def test_an_exception_is_no_finding(tmp_path):
    body = f"    assert q.shape == k.shape and q.shape[-1] == 64\n    return {SDPA}(q, k, v)\n"
    assert concluded(tmp_path, body).findings == ()
