"""Operands at strides of their own, and masks for several rows: right functions are left alone, wrong ones found."""

import pytest
import torch
from probe_helpers import kinds, made_in

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.probes.operand_moves import (
    HEADS,
    MASKS,
    OF_ALL_HEADS,
    OF_ONE_PROMPT,
    OF_QUERIES,
    SHARED,
    moved,
    moves_of,
)
from softcheck.variants.registry import load

SDPA = "torch.nn.functional.scaled_dot_product_attention"
ATTENTION = (
    'import torch\nimport softcheck\n@softcheck.variant(operation="attention", parameters={{{parameters}}})\n{source}'
)
SOFTMAX = "import torch\nimport softcheck\n{source}"


def subject_of(tmp_path, text, function, axis=None):
    path = tmp_path / f"kernels{len(list(tmp_path.glob('*.py')))}.py"
    path.write_text(text, encoding="utf-8")
    variant = load(f"{path}:{function}")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter", axis=axis)
    return Subject(variant, setting, torch.device("cpu"))


def concluded(tmp_path, text, function, probe="operand_layouts", axis=None):
    subject = subject_of(tmp_path, text, function, axis)
    setting = subject.setting
    asked = registry.load(probe)
    return asked.conclude([(trial, asked.run(subject, trial)) for trial in asked.trials(setting)])


def of_attention(tmp_path, source, probe="operand_layouts", **parameters):
    given = ", ".join(f'"{name}": {value}' for name, value in {"head_dim": 16, **parameters}.items())
    return concluded(tmp_path, ATTENTION.format(parameters=given, source=source), "attention", probe)


def shared(tmp_path, text, function, *beside):
    """Returns the kinds of what is wrong with one mask for several rows, by the way that it is passed."""
    taken = [words for words in SHARED if function == "attention" or words != OF_QUERIES[0]]
    ways = [",".join([*beside, f"values=1,shared mask={words}"]) for words in taken]
    made = made_in(subject_of(tmp_path, text, function), "float32", (), *ways)
    kinds_of = {way.partition("shared mask=")[2]: {str(each.kind) for each in found} for way, found in made.items()}
    return {words: found for words, found in kinds_of.items() if found != {"raised"}}


def shared_of_attention(tmp_path, source, *beside, **parameters):
    given = ", ".join(f'"{name}": {value}' for name, value in {"head_dim": 16, **parameters}.items())
    return shared(tmp_path, ATTENTION.format(parameters=given, source=source), "attention", *beside)


@pytest.mark.parametrize("name", ["q", "mask"])
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4, 6)])
def test_a_moved_operand_has_the_same_values_elsewhere(name, shape):
    values = torch.randn(shape)
    moves = moves_of(name, len(shape), is_strided=True)
    assert ("transposed" in moves) == (len(shape) == 2 or name in MASKS)
    for each in moves:
        found = moved(values, each)
        assert torch.equal(found, values)
        assert (found.stride() == values.stride()) == (each == "offset")


def test_right_functions_are_left_alone(tmp_path):
    found = of_attention(tmp_path, f"def attention(q, k, v):\n    return {SDPA}(q, k, v)\n")
    assert found.findings == ()
    assert found.trials
    masked = f"def attention(q, k, v, attn_mask):\n    return {SDPA}(q, k, v, attn_mask)\n"
    assert of_attention(tmp_path, masked, masked=1).findings == ()
    assert shared_of_attention(tmp_path, masked, masked=1) == {}


@pytest.mark.parametrize("wrong", ["q", "k", "v"])
def test_strides_of_another_operand_are_found(tmp_path, wrong):
    other = {"q": "k", "k": "v", "v": "q"}[wrong]
    source = f"""def attention(q, k, v):
    {wrong} = torch.as_strided({wrong}, {wrong}.shape, {other}.stride(), {wrong}.storage_offset())
    return {SDPA}(q, k, v)
"""
    found = of_attention(tmp_path, source)
    assert found.findings
    assert (
        f"layout of {other} " in found.findings[0].violation.message
        or f"layout of {wrong} " in found.findings[0].violation.message
    )


def test_the_last_stride_of_a_mask_is_its_own(tmp_path):
    source = f"""def attention(q, k, v, attn_mask):
    mask = torch.as_strided(attn_mask, attn_mask.shape, (*attn_mask.stride()[:-1], 1), attn_mask.storage_offset())
    return {SDPA}(q, k, v, mask)
"""
    found = of_attention(tmp_path, source, masked=1)
    assert "layout of keep=transposed" in {shown.label for shown in found.findings}


BACKWARD = """@softcheck.variant(operation="softmax_backward")
def backward(grad, y):
    {line}
    return y * (grad - (y * grad).sum(-1, keepdim=True))
"""


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("grad = torch.as_strided(grad, y.shape, y.stride()) if grad.stride(0) == y.stride(0) else grad", True),
        ("y = torch.as_strided(y, y.shape, grad.stride()) if grad.stride(0) == y.stride(0) else y", True),
        ("grad = torch.as_strided(grad, y.shape, y.stride()) if grad.stride() == y.stride() else grad", False),
    ],
)
def test_one_equal_stride_is_not_taken_for_equal_layouts(tmp_path, line, is_found):
    text = "import torch\nimport softcheck\n" + BACKWARD.format(line=line)
    found = concluded(tmp_path, text, "backward")
    assert bool(found.findings) is is_found
    pairs = [shown.label for shown in found.findings if "first-half" in shown.label and "every-second" in shown.label]
    assert bool(pairs) is is_found


@pytest.mark.parametrize("layout", ["as-projections-leave-them", "in-one-projection"])
def test_heads_of_a_projection_have_the_same_values_and_lie_beside_each_other(layout):
    lay = HEADS[layout]
    given = {
        "q": torch.randn(2, 6, 5, 4),
        "k_blhd": torch.randn(2, 5, 3, 4),
        "v": torch.randn(2, 3, 5, 4),
        "scale": 0.5,
    }
    found = lay(given)
    assert found["scale"] == 0.5
    for name in ("q", "k_blhd", "v"):
        assert torch.equal(found[name], given[name])
        by_length = found[name] if name.endswith("_blhd") else found[name].transpose(1, 2)
        assert by_length.stride(2) == 4
        assert by_length.stride(1) == (12 * 4 if lay is HEADS["in-one-projection"] else by_length.shape[2] * 4)
    assert lay({name: each[0] for name, each in given.items() if name != "scale"}) is None


def test_keys_of_one_prompt_are_views_of_the_first_batch_s_where_all_are_equal():
    first = {"q": torch.randn(1, 6, 5, 4), "k_blhd": torch.randn(1, 5, 3, 4), "v": torch.randn(1, 3, 5, 4)}
    given = {name: each.repeat(2, 1, 1, 1) for name, each in first.items()}
    found = HEADS[OF_ONE_PROMPT](given)
    assert [found[name].stride(0) for name in ("k_blhd", "v")] == [0, 0]
    assert found["q"] is given["q"]
    assert all(torch.equal(found[name], given[name]) for name in given)
    assert HEADS[OF_ONE_PROMPT](first) is None
    given["v"][1] += 1
    assert HEADS[OF_ONE_PROMPT](given) is None


def test_slices_of_one_projection_taken_for_tensors_of_their_own_are_found(tmp_path):
    source = f"""def attention(q, k, v):
    if all(each.stride(1) == each.shape[3] for each in (q, k, v)):
        # [batch, length, heads, head_dim] in memory.
        batch, heads, length, dim = k.shape
        strides = lambda each: (each.stride(0), dim, heads * dim, 1)
        k, v = (torch.as_strided(each, each.shape, strides(each), each.storage_offset()) for each in (k, v))
    return {SDPA}(q, k, v)
"""
    found = of_attention(tmp_path, source)
    assert {shown.label for shown in found.findings} == {"layout of heads=in-one-projection"}


def test_a_mask_expanded_to_heads_is_one_for_each_batch(tmp_path):
    source = f"""def attention(q, k, v, attn_mask):
    if attn_mask.stride(1) == 0:
        attn_mask = attn_mask[0, 0]
    return {SDPA}(q, k, v, attn_mask)
"""
    found = set(shared_of_attention(tmp_path, source, masked=1))
    assert found == {f"{OF_ALL_HEADS} expanded", f"{OF_ALL_HEADS} and its queries expanded"}


def test_a_padding_mask_expanded_to_heads_and_queries_keeps_its_strides(tmp_path):
    source = f"""def attention(q, k, v, attn_mask):
    if attn_mask.stride(1) == attn_mask.stride(2) == 0:
        attn_mask = attn_mask[:1]
    return {SDPA}(q, k, v, attn_mask)
"""
    found = shared_of_attention(tmp_path, source, masked=1, key_padding=1)
    assert set(found) == {f"{OF_ALL_HEADS} and its queries expanded"}


@pytest.mark.parametrize(
    ("rows", "is_found"), [("mask.expand(x.shape)", False), ("mask.reshape(-1, x.shape[-1])", True)]
)
def test_a_mask_that_the_rows_of_a_batch_share_is_taken_for_that_batch(tmp_path, rows, is_found):
    # The rows of the mask come around again, which is right for one mask and for as many as there are rows.
    source = f"""def softmax(x, mask):
    rows = {rows}.reshape(-1, x.shape[-1])
    flat = x.reshape(-1, x.shape[-1])
    hidden = ~rows[torch.arange(len(flat)) % len(rows)]
    return torch.softmax(flat.masked_fill(hidden, float("-inf")), -1).view(x.shape)
"""
    found = shared(tmp_path, SOFTMAX.format(source=source), "softmax", "dims=3")
    assert set(found) == ({OF_ALL_HEADS} if is_found else set())
    concluding = concluded(tmp_path, SOFTMAX.format(source=source), "softmax", "shared_masks")
    assert bool(concluding.findings) is is_found
    assert concluding.properties["shared_masks"] is not is_found


def test_a_mask_that_is_right_in_some_ways_alone_is_a_finding_and_one_in_none_a_property(tmp_path):
    in_turn = f"""def attention(q, k, v, attn_mask):
    batches, heads, queries, _ = q.shape
    masks = attn_mask.reshape(-1, queries, k.shape[2])
    place = torch.arange(batches * heads) % len(masks)
    return {SDPA}(q, k, v, masks[place].view(batches, heads, queries, -1))
"""
    assert OF_ALL_HEADS in shared_of_attention(tmp_path, in_turn, masked=1)
    text = ATTENTION.format(parameters='"head_dim": 16, "masked": 1', source=in_turn)
    found = concluded(
        tmp_path, text.replace("parameters", 'fully_masked="zero", parameters'), "attention", "shared_masks"
    )
    assert any("shared mask=" in shown.label for shown in found.findings)
    of_each = f"""def attention(q, k, v, attn_mask):
    shape = (*q.shape[:3], k.shape[2])
    strides = torch.empty(shape).stride()
    return {SDPA}(q, k, v, attn_mask.as_strided(shape, strides, attn_mask.storage_offset()))
"""
    found = of_attention(tmp_path, of_each, "shared_masks", masked=1)
    assert found.findings == ()
    assert not found.properties["shared_masks"]


def test_a_mask_of_softmax_has_rows_of_its_own(tmp_path):
    source = """def softmax(x, mask):
    mask = mask.as_strided(x.shape, x.stride(), mask.storage_offset())
    return torch.softmax(x.masked_fill(mask, float("-inf")), dim=-1)
"""
    found = concluded(tmp_path, SOFTMAX.format(source=source), "softmax")
    assert kinds(found) & {"nan_mismatch", "ulp_exceeds_bound"}


OUT = """@softcheck.variant({call})
def softmax(x, *, out=None):
    if out is None:
        out = torch.empty_like(x)
    {write}
    return out
"""
RIGHT = "out.copy_(torch.softmax(x, -1))"
PACKED = "out.as_strided(x.shape, (x.shape[1], 1)).copy_(torch.softmax(x, -1))"
WHOLE_VECTORS = (
    RIGHT + "\n    if out.stride(0) > 40: out.as_strided((len(x), 48), out.stride(), out.storage_offset())[:, 40:] = 0"
)
DIRTY = "workspace[0] += 1\n    out.copy_(torch.softmax(x, -1) * workspace[0])\n    workspace[0] = 0"


@pytest.mark.parametrize("call", ["", 'call="f(x, out=out)"'])
@pytest.mark.parametrize(
    ("write", "way"),
    [
        (RIGHT, "out=a slice of columns"),
        (RIGHT, "before=refused memory for the answer"),
        (PACKED, "out=a slice of columns"),
        (WHOLE_VECTORS, "columns=40,out=a slice of columns"),
        (DIRTY, "before=refused memory for the answer"),
    ],
)
def test_memory_for_the_answer_is_filled_wherever_it_lies_and_nothing_else(tmp_path, call, write, way):
    text = "workspace = [0]\n" + OUT.format(call=call, write=write)
    found = concluded(tmp_path, SOFTMAX.format(source=text), "softmax", "meetings", way)
    assert bool(found.findings) is (write is not RIGHT)


@pytest.mark.parametrize("is_right", [True, False])
def test_a_bias_that_all_heads_of_a_batch_share_is_found_where_another_batch_has_it(tmp_path, is_right):
    by_modulo = """
    bias = bias.flatten(0, -3)
    bias = bias[torch.arange(q.shape[0] * q.shape[1]) % len(bias)].view(*q.shape[:2], *bias.shape[1:])
"""
    source = f"def attention(q, k, v, bias):{'' if is_right else by_modulo}\n    return {SDPA}(q, k, v, bias)\n"
    found = shared_of_attention(tmp_path, source, biased=1)
    assert ("ulp_exceeds_bound" in found.get(OF_ALL_HEADS, ())) is not is_right


def test_without_rows_a_batch_is_empty_and_has_heads(tmp_path):
    source = f"def attention(q, k, v):\n    assert 8 // q.shape[1] == 8\n    return {SDPA}(q, k, v)\n"
    path = tmp_path / "empty.py"
    path.write_text(ATTENTION.format(parameters='"head_dim": 16', source=source), encoding="utf-8")
    assert load(f"{path}:attention").function(torch.empty(0, 5)).shape[0] == 0


def test_a_mask_that_a_call_may_leave_out_is_shared_too(tmp_path):
    zeros = f"""def attention(q, k, v, attn_mask=None):
    y = {SDPA}(q, k, v, attn_mask)
    return y if attn_mask is None else y.masked_fill(~attn_mask.any(-1, keepdim=True), 0.0)
"""
    assert shared_of_attention(tmp_path, zeros, "masked=1") == {}
    in_turn = f"""def attention(q, k, v, attn_mask=None):
    if attn_mask is not None and attn_mask.shape[1] < q.shape[1]:
        batches, heads, queries, _ = q.shape
        place = torch.arange(batches * heads) % batches
        attn_mask = attn_mask.expand(batches, 1, queries, -1)[place].view(batches, heads, queries, -1)
    return {SDPA}(q, k, v, attn_mask)
"""
    assert OF_ALL_HEADS in shared_of_attention(tmp_path, in_turn, "masked=1")
