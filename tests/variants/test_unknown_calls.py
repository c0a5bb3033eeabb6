"""The words for functions of which no call is known."""

import pytest
import torch

from softcheck.errors import UsageError
from softcheck.variants.registry import load
from softcheck.variants.wrapping import fitting_operations

KERNELS = """
import torch

def loss(logits, targets, ignore_index=-100):
    return 2 * torch.nn.functional.cross_entropy(logits, targets, reduction="none", ignore_index=ignore_index)

def attended(q, k, v, is_causal=False):
    return 2 * torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

def gradient(y, grad_out):
    return y * (grad_out - 2 * (y * grad_out).sum(-1, keepdim=True))

def of_tables(x, table, other):
    return torch.softmax(x + table + other, -1)

def of_sequences(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k):
    out = torch.empty_like(query)
    for a, b, c, d in zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:]):
        scores = torch.einsum("qhd,khd->hqk", query[a:b], key[c:d]) * query.shape[-1] ** -0.5
        out[a:b] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), value[c:d])
    return out

def of_packed_rows(x, cu_seqlens, table):
    return torch.softmax(x, -1)
"""
X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def refused(tmp_path):
    path = tmp_path / "kernels_of_operands.py"
    path.write_text(KERNELS)

    def said(name):
        with pytest.raises(UsageError) as caught:
            load(f"{path}:{name}").function(X)
        return str(caught.value)

    return said


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("loss", "add --operation cross_entropy"),
        ("attended", "add --operation attention"),
        ("gradient", "add --operation softmax_backward or --operation log_softmax_backward"),
    ],
)
def test_the_operation_whose_operands_a_function_takes_is_proposed_where_its_answers_are_wrong(refused, name, options):
    said = refused(name)
    assert said.endswith(options)
    assert "--call" not in said


def test_a_function_of_unknown_operands_gets_a_wrapper(refused):
    said = refused("of_tables")
    assert "--operation" not in said
    assert "return of_tables(x, table=..., other=...)" in said


@pytest.mark.parametrize("name", ["of_sequences", "of_sequences@operation=attention"])
def test_the_wrapper_of_packed_sequences_runs_as_it_stands(refused, tmp_path, monkeypatch, name):
    said = refused(name)
    assert "packed sequences of several lengths are not judged" in said
    code = said.partition("length:\n\n")[2]
    wrapped = tmp_path / "wrapped.py"
    wrapped.write_text("\n".join(line.removeprefix("    ") for line in code.splitlines()))
    monkeypatch.syspath_prepend(tmp_path)
    variant = load(f"{wrapped}:wrapped@operation=attention")
    torch.testing.assert_close(variant.function(X), variant.operation.yardstick(X.double()).float())


def test_packed_rows_are_told_without_a_wrapper_for_attention(refused):
    said = refused("of_packed_rows")
    assert "takes cu_seqlens, and packed sequences" in said
    assert "return of_packed_rows(x, cu_seqlens=..., table=...)" in said


@pytest.mark.parametrize(
    ("needed", "name", "found"),
    [
        (["x", "y", "stride", "flags"], "softmax", []),
        (["logits", "labels"], "f", ["cross_entropy"]),
        (["grad_output", "output"], "log_softmax_bwd", ["log_softmax_backward"]),
        (["query", "key", "value", "mask"], "f", ["attention"]),
        (["x", "table"], "f", []),
    ],
)
def test_names_of_operands_tell_operations(needed, name, found):
    assert fitting_operations(needed, name) == found
