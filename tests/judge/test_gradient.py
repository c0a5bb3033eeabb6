"""The exact gradient against an independent one, and its bound against right and wrong backwards."""

import mpmath
import numpy as np
import pytest
import torch

from oracles import ball
from oracles.formats import FORMATS, decode, encode
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.gradient import gradient_errors

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def drawn(seed, dtype, shape=(3, 40)):
    """Logits and output gradients that the format holds."""
    generator = np.random.default_rng(seed)
    fmt = FORMATS[dtype]
    return [decode(encode(2.0 * generator.standard_normal(shape), fmt), fmt) for _ in range(2)]


def errors(found, grads, logits, dtype, arithmetic=None):
    answer = ball.softmax(logits, fully_masked="nan")
    return gradient_errors(found, grads, logits, answer, FORMATS[dtype], arithmetic or Arithmetic(lanes=1))


def by_torch(logits, grads, dtype, function=lambda x: torch.softmax(x, dim=-1)):
    x = torch.from_numpy(logits).to(DTYPES[dtype]).requires_grad_()
    (gradient,) = torch.autograd.grad(function(x), x, torch.from_numpy(grads).to(DTYPES[dtype]))
    return gradient.double().numpy()


def test_the_exact_gradient_is_that_of_mpmath():
    logits, grads = drawn(1, "float64", (2, 7))
    with mpmath.workdps(60):
        for row in range(2):
            exponentials = [mpmath.exp(value) for value in logits[row]]
            y = [value / mpmath.fsum(exponentials) for value in exponentials]
            mean = mpmath.fsum(one * grad for one, grad in zip(y, grads[row], strict=True))
            expected = [float(one * (grad - mean)) for one, grad in zip(y, grads[row], strict=True)]
            found = errors(np.array(expected * 2).reshape(2, 7), grads[[row, row]], logits[[row, row]], "float64")
            assert np.array_equal(found.exact[0], expected)
            # The gradients were rounded once, and |dx| is at most the scale.
            assert found.errors.max() <= 0.5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(5))
def test_right_backwards_keep_the_bound(dtype, seed):
    logits, grads = drawn(seed, dtype)

    def operation_by_operation(x):
        exponentials = torch.exp(x.double() - x.amax(dim=-1, keepdim=True).double()).to(
            torch.promote_types(x.dtype, torch.float32)
        )
        return (exponentials / exponentials.sum(dim=-1, keepdim=True)).to(x.dtype)

    for function in (lambda x: torch.softmax(x, dim=-1), operation_by_operation):
        found = errors(by_torch(logits, grads, dtype, function), grads, logits, dtype)
        assert (found.errors <= found.limits).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_backwards_do_not(dtype):
    logits, grads = drawn(3, dtype)
    right = by_torch(logits, grads, dtype)
    probabilities = torch.softmax(torch.from_numpy(logits), dim=-1).numpy()
    for wrong in (probabilities * grads, probabilities * (1 - probabilities) * grads, -right, right * np.nan):
        found = errors(wrong, grads, logits, dtype)
        assert (~(found.errors <= found.limits)).any(axis=1).all()


def test_an_element_off_by_a_few_units_shows():
    logits, grads = drawn(4, "float16")
    right = by_torch(logits, grads, "float16")
    at = (1, int(np.argmin(logits[1])))
    right[at] += 6 * abs(right[at]) * 2**-11 + 6 * 2**-24
    found = errors(right, grads, logits, "float16")
    assert np.argwhere(~(found.errors <= found.limits)).tolist() == [list(at)]


def test_a_weaker_arithmetic_allows_more():
    logits, grads = drawn(5, "bfloat16")
    found = by_torch(logits, grads, "bfloat16")
    standard = errors(found, grads, logits, "bfloat16").limits
    weaker = errors(found, grads, logits, "bfloat16", Arithmetic(intermediate="input")).limits
    assert (weaker > standard).all()
