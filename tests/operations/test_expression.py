"""Formulas with errors say the same of numpy's arrays and of torch's tensors, and no more than what a computation in float32 errs by."""

from typing import Any

import numpy as np
import pytest
import torch

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from softcheck.numbers.expression import Number, Positive
from softcheck.numbers.model import EXACT
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic, model

ARITHMETICS = (
    Arithmetic(),
    Arithmetic(exp="prescaled_ex2_approx"),
    Arithmetic(intermediate="input"),
    Arithmetic(rescales=True, scaled_logits=True),
)


def _errors(x: Any, g: Any, constants: Any, fmt: Any) -> tuple[Any, ...]:
    logits = Number.read(x, constants)
    softmax, log_softmax, logsumexp = (f(logits) for f in (bounds.softmax, bounds.log_softmax, bounds.logsumexp))
    y, p, grads = (
        softmax.number(),
        Number.given(log_softmax.value, constants).power().number(),
        Number.given(g, constants),
    )
    return (
        softmax.log,
        log_softmax.error,
        logsumexp.error,
        bounds.softmax_backward(y, grads, fmt).error,
        bounds.log_softmax_backward(p, grads).error,
        bounds.half_ulp(abs(log_softmax.value), fmt),
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


def test_an_exponential_is_exact_at_an_exact_maximum_alone() -> None:
    x = np.array([[1.0, 300.0, -np.inf]])
    exact, scaled = (Number.read(x, model(Arithmetic(scaled_logits=each), FLOAT32)) for each in (False, True))
    assert (exact - exact.max()).exp().log[0, 1] == 0
    # A fused multiply and add leaves the rounding error of the product there.
    assert (scaled - scaled.max()).exp().log[0, 1] >= 2.0**-24 * 300
    with np.errstate(invalid="ignore"):
        assert (exact - exact.max()).exp().value[0, 2] == 0


def test_a_sum_may_rise_by_more_than_the_mean_error_of_its_terms() -> None:
    constants = EXACT
    terms = Positive(np.array([[1.0] + [0.01] * 45]), np.array([[0.0] + [3.0] * 45]), constants, is_rough=True)
    rise = np.log((1 + 0.45 * np.exp(3.0)) / 1.45)
    assert terms.sum().log[0, 0] == pytest.approx(rise)


@pytest.mark.parametrize("name", ["log_softmax", "logsumexp"])
def test_forms_in_float32_keep_the_bound(name: str) -> None:
    """Natural and base-2 forms with every step rounded, of offsets and widths of all sizes."""
    rng = np.random.default_rng(11)
    log2e, ln2 = np.float32(np.log2(np.e)), np.float32(np.log(2))
    for columns, spread, offset in [(2, 1e-3, 0), (3, 20, 1e4), (64, 80, -300), (1000, 3, 1e5), (7, 1, -1e6)]:
        x = (rng.standard_normal((500, columns)) * spread + offset).astype(np.float32)
        top = x.max(axis=1, keepdims=True)
        below = x - top
        total = np.exp2(below * log2e).sum(axis=1, keepdims=True, dtype=np.float32)
        logarithm = np.log2(total)
        if name == "log_softmax":
            forms = [below - logarithm * ln2, (below * log2e - logarithm) * ln2]
        else:
            forms = [top + logarithm * ln2, (top * log2e + logarithm) * ln2]
        found = getattr(bounds, name)(Number.read(x.astype(np.float64), model(Arithmetic(), FLOAT32)))
        for form in forms:
            assert form.dtype == np.float32
            share = np.abs(form - found.value) / found.error
            assert share.max() < 1


@pytest.mark.parametrize("columns", [2, 5, 64, 1000])
def test_backwards_in_float32_keep_the_bound(columns: int) -> None:
    """Products of differences and differences of products, with sums in sequence, for gradients about 0 and far from it."""
    rng = np.random.default_rng(columns)
    constants = model(Arithmetic(lanes=1), FLOAT32)
    for spread, offset in [(0.1, 0), (4, 0), (20, 3), (3, 1e6)]:
        y = bounds.softmax(Number(rng.standard_normal((500, columns)) * spread, EXACT)).value.astype(np.float32)
        g = (rng.standard_normal(y.shape) + offset).astype(np.float32)
        logarithm = np.log(np.maximum(y, np.float32(1e-37)))
        total, mean = (np.add.accumulate(each, axis=1)[:, -1:] for each in (g, y * g))
        powers = np.exp2(logarithm * np.float32(np.log2(np.e)))
        p, given = (Number.given(each.astype(np.float64), constants) for each in (logarithm, g))
        of_softmax = bounds.softmax_backward(Number.given(y.astype(np.float64), constants), given, FLOAT32)
        of_logarithm = bounds.log_softmax_backward(p.power().number(), given)
        for form, found in (
            (y * (g - mean), of_softmax),
            (y * g - y * mean, of_softmax),
            (g - powers * total, of_logarithm),
        ):
            assert form.dtype == np.float32
            assert (np.abs(form - found.value) / found.error).max() < 1


def test_products_in_float64_keep_the_roundoff_of_float64() -> None:
    found = Number.given(np.ones((1, 2)), model(Arithmetic(), FLOAT64))
    assert 2.0**-53 <= (found * found).relative < 2.0**-52
