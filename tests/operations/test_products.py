"""Sums of products and soft caps err by no more than their formulas say, of numpy's arrays as of torch's tensors."""

from typing import Any

import numpy as np
import pytest
import torch

from oracles.formats import FLOAT32
from softcheck.numbers import products
from softcheck.numbers.expression import Number
from softcheck.operations.arithmetic import Arithmetic, model

CONSTANTS = model(Arithmetic(), FLOAT32)


def operands(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Two matrices and errors of theirs."""
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal(shape) * 4 for shape in ((2, 5, 33), (2, 33, 7)))
    return left, right, abs(left) * 1e-4, abs(right) * 1e-3


def found(left: Any, right: Any, of_left: Any, of_right: Any) -> tuple[Number, ...]:
    """Each primitive's numbers."""
    one, other = Number(left, CONSTANTS, of_left), Number(right, CONSTANTS, of_right)
    square = products.times(one, one)
    return (products.dot(one, other), square, products.summed(square), products.capped(products.transposed(one), 3.0))


def test_arrays_and_tensors_have_the_same_errors() -> None:
    given = operands()
    for array, tensor in zip(found(*given), found(*map(torch.from_numpy, given)), strict=True):
        np.testing.assert_allclose(tensor.value.numpy(), array.value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(tensor.error.numpy(), array.error, rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_changed_operands_in_float32_stay_within_the_errors(seed: int) -> None:
    left, right, *errors = operands(seed)
    rng = np.random.default_rng(seed)
    changed = [
        (part + off * rng.choice([-1, 1], off.shape)).astype(np.float32)
        for part, off in zip((left, right), errors, strict=True)
    ]
    # Rounding to float32 first is one error more of operands.
    bounds = found(left, right, *(off + abs(part) * 2.0**-24 for part, off in zip((left, right), errors, strict=True)))
    one, other = changed
    computed = (one @ other, one * one, (one * one).sum(axis=2, keepdims=True), 3 * np.tanh(one.swapaxes(1, 2) / 3))
    for bound, result in zip(bounds, computed, strict=True):
        off = abs(result.astype(np.float64) - bound.value)
        assert (off <= bound.error + abs(bound.value) * 2.0**-23).all()


def test_a_product_alone_and_zeros_are_exact_in_a_sum_of_products() -> None:
    one = Number(np.zeros((1, 4)), CONSTANTS)
    assert not products.dot(one, Number(np.ones((4, 3)), CONSTANTS)).error.any()
