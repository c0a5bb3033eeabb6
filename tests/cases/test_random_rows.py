"""Rows of every family made on the device."""

import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.cases.families import FAMILIES
from softcheck.cases.random_rows import FILLERS, ORDINARY, fill, mixed

DTYPES = ("float16", "bfloat16", "float32")
ROWS = 10


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def test_every_family_but_the_empty_one_is_drawn():
    assert set(FILLERS) == set(FAMILIES) - {"empty"}
    assert set(ORDINARY) <= set(FILLERS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 65])
def test_rows_have_the_shape_and_repeat_with_the_seed(dtype, columns):
    fmt = FORMATS[dtype]
    for family, filler in FILLERS.items():
        first, again = (fill(filler, ROWS, columns, fmt, generator()) for _ in range(2))
        assert first.shape == (ROWS, columns), family
        assert first.dtype == TORCH_DTYPES[dtype], family
        assert first.is_contiguous(), family
        assert (to_bits(first, fmt) == to_bits(again, fmt)).all(), family


@pytest.mark.parametrize("dtype", DTYPES)
def test_families_are_what_their_names_say(dtype):
    fmt = FORMATS[dtype]

    def rows(family):
        return fill(FILLERS[family], 400, 33, fmt, generator()).double()

    special = rows("special")
    assert (special.isnan().any(dim=1) | (special == torch.inf).any(dim=1)).double().mean() > 0.5
    padding = rows("padding")
    masked = (padding == -torch.inf).double().mean(dim=1)
    assert masked.min() == 0
    assert masked.max() == 1
    assert not padding.isnan().any()
    assert (rows("subnormal-logits").abs() < fmt.least_normal).double().mean() > 0.5
    assert rows("huge").abs().max() == fmt.max
    assert not rows("huge").isinf().any()
    results = torch.softmax(rows("subnormal-results"), dim=1)
    assert ((results > 0) & (results < fmt.least_normal)).double().mean() > 0.2
    ties = rows("ties")
    assert all(len(set(row.tolist())) < 33 for row in ties[:100])
    assert (rows("shifted").abs().amin(dim=1) > 2.0 ** (fmt.precision - 7)).all()


def test_mixed_families_have_an_answer():
    for dtype in DTYPES:
        x = mixed(2000, 33, FORMATS[dtype], generator()).double()
        ordinary = x.amax(dim=1).isfinite()
        assert ordinary.double().mean() > 0.98
        assert not x.isnan().any()


def test_few_rows_are_of_some_families():
    assert mixed(3, 5, FORMATS["float32"], generator()).shape == (3, 5)
