"""Every pattern of a format has a row in which it shows, and stands there bit for bit."""

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS, decode, encode
from softcheck.calling.call import to_bits
from softcheck.cases import rare_values

SIXTEEN_BITS = ("float16", "bfloat16")


def values_of(patterns, fmt):
    return decode(patterns.astype(np.uint64).astype(fmt.storage), fmt)


@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_every_pattern_is_there_once(dtype):
    found = rare_values.patterns(FORMATS[dtype], seed=1)
    assert np.array_equal(np.sort(found), np.arange(1 << 16))


def test_wider_formats_have_every_exponent_and_leading_bits():
    found = rare_values.patterns(FORMATS["float32"], seed=1)
    assert len(set((found >> 20).tolist())) == 1 << 12
    assert set(encode(np.array([-1e4, 1e-7, 3.0]), FORMATS["float32"]).astype(int).tolist()) <= set(found.tolist())
    assert not np.array_equal(found, rare_values.patterns(FORMATS["float32"], seed=2))


@pytest.mark.parametrize("dtype", [*SIXTEEN_BITS, "float32", "float64"])
def test_groups_hold_every_pattern_among_others_that_it_shows_beside(dtype):
    fmt = FORMATS[dtype]
    ordered = rare_values.patterns(fmt, seed=1)
    groups = rare_values.groups(ordered, fmt, 32)
    assert np.array_equal(np.concatenate(groups), ordered)
    for group in groups:
        values = values_of(group, fmt)
        assert len(group) <= 32
        assert len(group) == 1 or np.ptp(values) <= 6 + 2 * np.spacing(np.abs(values).max())


@pytest.mark.parametrize("dtype", [*SIXTEEN_BITS, "float32", "float64"])
@pytest.mark.parametrize("near", [True, False])
def test_patterns_stand_where_they_should(dtype, near):
    fmt = FORMATS[dtype]
    chosen = torch.from_numpy(rare_values.patterns(fmt, seed=1)[::97, None])
    places = torch.full_like(chosen, 5)
    rows = rare_values.rows_with(chosen, places, 9, fmt, torch.Generator().manual_seed(1), near=near)
    bits = to_bits(rows, fmt)
    assert np.array_equal(bits[:, 5], chosen[:, 0].numpy().astype(np.uint64).astype(fmt.storage))
    others = np.delete(decode(bits, fmt), 5, axis=1)
    assert np.isfinite(others).all()
    middle = values_of(chosen[:, 0].numpy(), fmt)
    distance = others - np.where(np.isfinite(middle) & near, middle, 0.0)[:, None]
    spacing = np.spacing(np.abs(others).max(axis=1).astype(np.float64)) * 2.0 ** (53 - fmt.precision)
    assert (np.abs(distance) <= 8 + spacing[:, None]).all()


def test_telling_values_are_those_that_programs_name():
    fmt = FORMATS["float16"]
    named = encode(np.array([8.0, -1e4, 65504.0, -0.0, np.inf]), fmt)
    assert set(named.astype(int).tolist()) <= rare_values.telling(fmt)
    assert len(rare_values.telling(fmt)) < 400
