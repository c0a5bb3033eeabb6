"""Shrinking keeps what fails and drops the rest."""

import numpy as np

from oracles.formats import FLOAT16, decode
from softcheck.cases.case import PACKED, Layout, check_contents
from softcheck.cases.importing import case_from_bits
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import Constant, Normal, Recipe
from softcheck.run.regression import shrink


def case_of(values, layout=PACKED):
    bits = np.asarray(values, dtype=np.float16).view(np.uint16)
    return case_from_bits(bits, "float16", provenance="test", layout=layout)


def test_one_bad_value_shrinks_to_one_element():
    values = np.arange(6 * 50, dtype=np.float64).reshape(6, 50)
    values[4, 31] = -7

    def fails(case):
        return bool((decode(case.bits(), FLOAT16) == -7).any())

    smallest = shrink(case_of(values), fails, row=4)
    assert smallest.shape == (1, 1)
    assert decode(smallest.bits(), FLOAT16)[0, 0] == -7


def test_width_dependent_failure_keeps_its_least_width():
    smallest = shrink(case_of(np.ones((3, 700))), lambda case: case.shape[1] > 512)
    assert smallest.shape == (1, 513)
    assert not smallest.bits().any(), "values that do not matter become zero"


def test_failure_that_needs_two_rows_keeps_two():
    smallest = shrink(case_of(np.ones((8, 4))), lambda case: case.shape[0] >= 2)
    assert smallest.shape == (2, 1)


def test_strided_layout_is_dropped_where_it_does_not_matter_and_kept_where_it_does():
    strided = case_of(np.ones((4, 8)), Layout(row_stride=11, offset=3))
    assert shrink(strided, lambda _: True).layout == Layout()
    kept = shrink(strided, lambda case: not case.layout.is_contiguous(case.shape[1]))
    assert kept.layout.row_stride is not None
    assert kept.layout.row_stride >= kept.shape[1], "rows must not overlap"


def test_nothing_simpler_fails_gives_the_case_itself():
    case = case_of([[1.0, 2.0]])
    original = case.bits().tobytes()
    assert shrink(case, lambda c: c.bits().tobytes() == original).digest == case.digest


def test_digest_is_that_of_the_shrunk_bits():
    smallest = shrink(case_of(np.ones((4, 8))), lambda case: case.shape[1] >= 3)
    check_contents(smallest)


def test_what_a_case_names_goes_with_its_rows_and_columns():
    values = np.random.default_rng(0).normal(size=(5, 40))
    operands = Operands(target=(3, 9, 38, 0, 1), grad=Recipe(Normal(3)), bias=Recipe(Constant(0.0)))
    case = case_from_bits(
        np.asarray(values, dtype=np.float16).view(np.uint16), "float16", provenance="test", operands=operands
    )
    wanted = case.operands.grad[2].split()[38]

    def fails(each):
        return any(each.operands.grad[row].split()[target] == wanted for row, target in enumerate(each.operands.target))

    smallest = shrink(case, fails)
    assert smallest.shape == (1, 1)
    assert smallest.operands.target == (0,)
    assert smallest.operands.grad == (wanted,)
    check_contents(smallest)
