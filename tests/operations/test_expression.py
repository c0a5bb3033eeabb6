"""Formulas of errors say the same of numpy's arrays and of torch's tensors."""

from typing import Any

import numpy as np
import pytest
import torch

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from softcheck.operations import bounds as expression
from softcheck.operations.arithmetic import Arithmetic, model

ARITHMETICS = (
    Arithmetic(),
    Arithmetic(exp="prescaled_ex2_approx"),
    Arithmetic(intermediate="input"),
    Arithmetic(rescales=True, scaled_logits=True),
)


def _errors(x: Any, g: Any, constants: Any, fmt: Any) -> tuple[Any, ...]:
    xp = expression.module_of(x)
    top = xp.amax(x, axis=1, keepdims=True)
    below = x - top
    terms = xp.exp(below)
    total = terms.sum(axis=1, keepdims=True)
    logarithm = xp.log(total)
    rounded = expression.of_logits(x, top, constants) if constants.rounds_logits else None
    answers = below - logarithm
    each = expression.exponent_errors(below, rounded, constants)
    growth = expression.mean_growth(each, terms, constants)
    of_sum = expression.logarithm_error(logarithm, growth, x.shape[1], constants)
    return (
        each,
        growth,
        expression.log_softmax_error(answers, logarithm, of_sum, rounded, constants),
        expression.logsumexp_error(top + logarithm, top, of_sum, constants),
        expression.backward_error(terms / total, g, fmt, constants, is_logarithm=False),
        expression.backward_error(answers, g, fmt, constants, is_logarithm=True),
        expression.half_ulp(abs(answers), fmt),
    )


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_arrays_and_tensors_have_the_same_errors(fmt: Any, arithmetic: Arithmetic) -> None:
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((16, 65)) * 20, rng.standard_normal((16, 65))
    constants = model(arithmetic, fmt)
    tensors = _errors(torch.from_numpy(x), torch.from_numpy(g), constants, fmt)
    for array, tensor in zip(_errors(x, g, constants, fmt), tensors, strict=True):
        assert tensor.dtype == torch.float64
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-12)


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize(
    "array", [np.array, lambda rows: torch.tensor(rows, dtype=torch.float64)], ids=["numpy", "torch"]
)
def test_errors_of_the_largest_logits_are_finite(array: Any, arithmetic: Arithmetic) -> None:
    x = array([[1.7e308] * 3])
    # Squares of errors overflow on the way, as they may.
    with np.errstate(over="ignore"):
        found = _errors(x, x * 0.0, model(arithmetic, FLOAT64), FLOAT64)
    for errors in found:
        assert bool((abs(errors) < np.inf).all())
