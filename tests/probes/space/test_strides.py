"""Each layout holds its rows where its strides say, and NaN beside them, for tensors of two to four dimensions."""

import numpy as np
import pytest

from oracles.formats import FLOAT32, decode, encode
from softcheck.probes.space import strides

SHAPES = ((5,), (2, 3), (2, 3, 2))


@pytest.mark.parametrize("leading", SHAPES, ids=["matrix", "three", "four"])
@pytest.mark.parametrize("place", [-1, 0])
@pytest.mark.parametrize("name", strides.names(4, is_strided=True))
def test_a_layout_holds_the_rows(name, leading, place):
    bits = encode(np.random.default_rng(7).standard_normal((int(np.prod(leading)), 7)), FLOAT32)
    laid = strides.laid(bits, leading, place, name, FLOAT32)
    itemsize = laid.storage.itemsize
    whole = np.lib.stride_tricks.as_strided(
        laid.storage[laid.offset :], laid.shape, [stride * itemsize for stride in laid.strides]
    )
    assert (np.moveaxis(whole, place, -1).reshape(bits.shape) == laid.rows).all()
    if name not in strides.SHARED:
        assert (laid.rows == bits).all()
    others = np.delete(laid.storage, np.unique(laid.places))
    assert len(others) >= bits.size, "a kernel that ignores strides must read on in NaN"
    assert np.isnan(decode(others, FLOAT32)).all()


def test_layouts_differ_wherever_they_are_said_to_fit():
    bits = encode(np.zeros((12, 7)), FLOAT32)
    for leading in ((12,), (3, 4)):
        fitting = [name for name in strides.names(4, is_strided=True) if strides.fits(name, len(leading) + 1)]
        found = {
            (laid.strides, laid.offset) for name in fitting for laid in [strides.laid(bits, leading, -1, name, FLOAT32)]
        }
        assert len(found) == len(fitting)
