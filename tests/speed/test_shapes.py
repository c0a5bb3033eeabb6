"""Shapes as they are typed, and the named sweeps."""

import pytest

from softcheck.errors import UsageError
from softcheck.speed.samples import SWEEPS, parse


def test_shapes_are_read_in_order_and_once():
    assert parse("4096x1024, 1823\N{MULTIPLICATION SIGN}781,4096x1024") == ((4096, 1024), (1823, 781))


@pytest.mark.parametrize("text", ["", "4096", "4096x", "x4", "4096x1024x2", "-1x4", "1.5x2", "4096x1024,", "٤x٤"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="expected ROWSxCOLUMNS, such as 4096x1024"):
        parse(text)


@pytest.mark.parametrize("text", ["0x4", "4x0"])
def test_empty_shapes_are_refused(text):
    with pytest.raises(UsageError, match="no elements"):
        parse(text)


def test_shapes_that_no_device_holds_are_refused():
    with pytest.raises(UsageError, match="expected at most"):
        parse("1000000x1000000")


def test_the_columns_sweep_is_the_sources():
    columns = [c for _, c in SWEEPS["columns"]]
    assert {r for r, _ in SWEEPS["columns"]} == {4096}
    assert (columns[0], columns[1], columns[-1], len(columns)) == (256, 384, 12672, 98)
    assert max(c for _, c in SWEEPS["vocabulary"]) == 129280
