"""Calls and transfers: what they say of a call, and the bits that they bring to the host."""

import gc
import weakref

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import call, call_on_device, place, to_bits, to_tensor
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
    assert [v.kind for v in called.violations] == kinds
    assert called.violations == returned.violations
    assert np.array_equal(called.output, to_bits(returned.output, fmt))


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
