"""Calls and transfers: what they say of a call, and the bits that they bring to the host."""

import gc
import weakref

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling import call as calling
from softcheck.calling.call import all_to_bits, call, call_on_device, launch, place, to_bits, to_tensor
from softcheck.cases.case import Layout
from softcheck.contract import FindingKind

CPU = torch.device("cpu")
LAYOUT = Layout(row_stride=8, offset=2)
"""Of rows of five columns: memory lies before the first and between all."""


def bits_of(fmt, *shape):
    return np.arange(np.prod(shape), dtype=fmt.storage).reshape(shape)


def right(x):
    return torch.softmax(x, dim=-1)


def changes_an_element(x):
    output = right(x)
    x[1, 2] = 3.0
    return output


def writes_beside_the_input(x):
    output = right(x)
    x.as_strided((1,), (1,), 7).fill_(3.0)
    return output


def does_both(x):
    changes_an_element(x)
    return writes_beside_the_input(x)


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (right, []),
        (changes_an_element, [FindingKind.INPUT_MODIFIED]),
        (writes_beside_the_input, [FindingKind.OUT_OF_BOUNDS_WRITE]),
        (does_both, [FindingKind.INPUT_MODIFIED, FindingKind.OUT_OF_BOUNDS_WRITE]),
    ],
)
@pytest.mark.parametrize("dtype", FORMATS)
def test_what_a_call_writes_to_its_input_shows_however_it_is_made(function, kinds, dtype):
    fmt = FORMATS[dtype]
    called, returned = (made(function, place(bits_of(fmt, 3, 5), fmt, LAYOUT, CPU)) for made in (call, call_on_device))
    launched = launch(function, place(bits_of(fmt, 3, 5), fmt, LAYOUT, CPU), wait=False)
    assert [v.kind for v in called.violations] == kinds
    assert called.violations == returned.violations == launched.modified()
    assert bool(launched.unchanged()) == (not kinds)
    for output in (to_bits(returned.output, fmt), to_bits(launched.output, fmt)):
        assert np.array_equal(called.output, output)


@pytest.mark.parametrize("together", [1 << 20, 0])
@pytest.mark.parametrize("dtype", FORMATS)
def test_bits_of_several_tensors_are_those_of_each(dtype, together, monkeypatch):
    monkeypatch.setattr(calling, "_TOGETHER", together)
    fmt = FORMATS[dtype]
    bits = [bits_of(fmt, 3, 4), bits_of(fmt, 0, 7), bits_of(fmt, 1, 1), bits_of(fmt, 6, 5)[::2, ::-1]]
    tensors = [to_tensor(each, fmt, CPU) for each in bits]
    tensors.append(tensors[0].t().requires_grad_())
    bits.append(bits[0].T)
    for found, expected in zip(all_to_bits(tensors, fmt), bits, strict=True):
        assert found.dtype == fmt.storage
        assert np.array_equal(found, expected)


def test_bits_of_nothing():
    assert all_to_bits([], FORMATS["float16"]) == []


def test_a_tensor_has_memory_of_its_own():
    bits = bits_of(FORMATS["float32"], 2, 2)
    tensor = to_tensor(bits, FORMATS["float32"], CPU)
    bits[:] = 0
    assert to_bits(tensor, FORMATS["float32"]).tolist() == [[0, 1], [2, 3]]


def test_a_call_keeps_nothing_alive():
    """An output's memory is free before the answer is sent: a fault that shows then is this call's."""
    kept = []

    def softmax(x):
        output = torch.softmax(x, dim=-1)
        kept.append(weakref.ref(output))
        return output

    gc.disable()
    try:
        call(softmax, place(np.zeros((2, 3), dtype=np.uint16), FORMATS["float16"], Layout(), CPU))
        assert [reference() for reference in kept] == [None]
    finally:
        gc.enable()
