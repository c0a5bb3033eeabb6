"""Gradients of attention by a tensor that is several of its operands."""

import pytest
import torch
from probe_helpers import made_in

from softcheck import variant


class InBuffers(torch.autograd.Function):
    """Adds gradients up in a buffer for each key, which ``key_of`` makes of an operand and its place."""

    @staticmethod
    def forward(ctx, q, k, v, key_of):
        p = torch.softmax(q.double() @ k.double().mT * q.shape[-1] ** -0.5, -1)
        ctx.save_for_backward(q, k, v)
        ctx.key_of = key_of
        return (p @ v.double()).to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        given, buffers = ctx.saved_tensors, {}
        keys = [ctx.key_of(place, each) for place, each in enumerate(given)]
        with torch.enable_grad():
            leaves = [each.detach().double().requires_grad_() for each in given]
            q, k, v = leaves
            answer = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
        for key, part in zip(keys, torch.autograd.grad(answer, leaves, grad.double()), strict=True):
            buffers[key] = buffers.get(key, 0) + part
        return *(buffers[key].to(grad.dtype) for key in keys), None


@variant(operation="attention", call="f(q, k, v)")
def by_place(q, k, v):
    return InBuffers.apply(q, k, v, lambda place, operand: (place, operand.data_ptr()))


@variant(operation="attention", call="f(q, k, v)")
def by_address(q, k, v):
    return InBuffers.apply(q, k, v, lambda _, operand: operand.data_ptr())


@variant(operation="attention", call="f(q, k, v)")
def keys_and_values_by_address(q, k, v):
    return InBuffers.apply(q, k, v, lambda place, operand: (place == 0, operand.data_ptr()))


@variant(operation="attention", call="f(q, k, v)")
def refused(q, k, v):
    if q is k or k is v:
        raise ValueError("three tensors are expected")
    return by_place(q, k, v)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (by_place, None),
        (refused, None),
        (by_address, "where q, k, v are one tensor"),
        (keys_and_values_by_address, "where k, v are one tensor"),
    ],
)
def test_a_tensor_that_is_several_operands_gets_the_sum_of_their_gradients(function, words, dtype):
    messages = [each.message for wrong in made_in(function, dtype).values() for each in wrong]
    assert bool(messages) == (words is not None)
    assert words is None or any(words in message for message in messages)


def test_operands_of_other_shapes_are_left_alone():
    @variant(operation="attention", call="f(q, k, v)", parameters={"value_dim": 16})
    def attention(q, k, v):
        return by_address(q, k, v)

    assert made_in(attention, "float32", (), "asked=of one tensor for q; k and v") == {}
