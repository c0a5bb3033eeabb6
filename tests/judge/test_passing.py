"""The judge passes every row that the screen passes, and the screen passes right rows as a rule."""

import functools

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS, decode, encode
from softcheck.calling.call import to_bits, to_tensor
from softcheck.judge import tensors
from softcheck.judge.judge import judge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.softmax import SOFTMAX

passing = functools.partial(tensors.passing, operation=SOFTMAX)

DTYPES = ["float16", "bfloat16", "float32"]


def logits(fmt, columns, seed, spread=3.0):
    generator = np.random.default_rng(seed)
    return encode(spread * generator.standard_normal((48, columns)), fmt)


@pytest.mark.parametrize(
    ("dtype", "columns", "steps"),
    [
        (DTYPES[(at + place) % 3], columns, steps)
        for at, columns in enumerate([1, 2, 37, 1000])
        for place, steps in enumerate([0, 1, 2, 4, 8, 16, 32, 64])
    ],
)
def test_passes_nothing_that_the_judge_refuses(dtype, columns, steps):
    """Outputs up to ``steps`` of their own spacing away from right ones: around the bounds, on either side of them."""
    fmt = FORMATS[dtype]
    bits = logits(fmt, columns, steps)
    x = to_tensor(bits, fmt, torch.device("cpu"))
    generator = np.random.default_rng([steps, columns])
    right = to_bits(torch.softmax(x, dim=1), fmt).astype(np.int64)
    where = generator.random(right.shape) < generator.random((len(right), 1))
    moved = np.maximum(right + where * generator.integers(-steps, steps + 1, right.shape), 0)
    output = moved.astype(fmt.storage)
    passed = passing(x, to_tensor(output, fmt, torch.device("cpu")), fmt).numpy()
    assert judge(bits[passed], output[passed], fmt).violations == ()


@pytest.mark.parametrize("exp", ["ex2_approx", "prescaled_ex2_approx"])
@pytest.mark.parametrize("spread", [3.0, 12.0])
@pytest.mark.parametrize("steps", [16, 256, 4096])
def test_passes_no_scaled_logits_that_the_judge_refuses(exp, spread, steps):
    fmt = FORMATS["float32"]
    arithmetic = Arithmetic(scaled_logits=True, exp=exp)
    bits = logits(fmt, 37, steps, spread)
    x = to_tensor(bits, fmt, torch.device("cpu"))
    generator = np.random.default_rng(steps)
    right = to_bits(torch.softmax(x, dim=1), fmt).astype(np.int64)
    output = np.maximum(right + generator.integers(-steps, steps + 1, right.shape), 0).astype(fmt.storage)
    passed = passing(x, to_tensor(output, fmt, torch.device("cpu")), fmt, arithmetic).numpy()
    assert judge(bits[passed], output[passed], fmt, arithmetic=arithmetic).violations == ()
    assert passing(x, torch.softmax(x, dim=1), fmt, arithmetic).float().mean() > 0.95


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 37, 1000, 4096])
def test_passes_right_rows(dtype, columns):
    fmt = FORMATS[dtype]
    bits = logits(fmt, columns, 7)
    x = to_tensor(bits, fmt, torch.device("cpu"))
    exact = torch.softmax(x.double(), dim=1).numpy()
    assert passing(x, to_tensor(encode(exact, fmt), fmt, torch.device("cpu")), fmt).all()
    assert passing(x, torch.softmax(x, dim=1), fmt).float().mean() > 0.95


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_special_rows_and_leaves_wild_outputs_to_the_judge(dtype):
    fmt = FORMATS[dtype]
    values = decode(logits(fmt, 9, 1), fmt)
    values[0, 3], values[1, 3], values[2, 3] = np.nan, np.inf, -np.inf
    x = to_tensor(encode(values, fmt), fmt, torch.device("cpu"))
    y = torch.softmax(x, dim=1)
    y[3, 4], y[4, 4], y[5, 4] = float("nan"), float("inf"), -1e-9
    y[5, 4] = -y[5, 4].abs().clamp(min=6e-8)
    assert passing(x, y, fmt)[:6].tolist() == [True, True, True, False, False, False]
    assert passing(x, y, fmt)[6:].all()
    y[2, 3] = 6e-8
    assert not passing(x, y, fmt)[2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "arithmetic",
    [
        Arithmetic(),
        Arithmetic(intermediate="input"),
        Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True),
        Arithmetic(scaled_logits=True),
    ],
)
def test_passes_right_rows_of_every_spread_and_no_wrong_ones(dtype, arithmetic):
    fmt = FORMATS[dtype]
    bits = np.random.default_rng(3).integers(0, 1 << 16, (4000, 2)).astype(np.uint16)
    bits = bits[np.isfinite(decode(bits, fmt)).all(axis=1)]
    bits[:9, 0] = {"float16": 0xFC00, "bfloat16": 0xFF80}[dtype]
    x = to_tensor(bits, fmt, torch.device("cpu"))
    y = to_tensor(encode(torch.softmax(x.double(), dim=1).numpy(), fmt), fmt, torch.device("cpu"))
    assert passing(x, y, fmt, arithmetic).all()
    y[:, 0] += y.amin(dim=1) + 0.01
    wrong = to_bits(y, fmt)
    passed = passing(x, y, fmt, arithmetic).numpy()
    assert judge(bits[passed], wrong[passed], fmt, arithmetic=arithmetic).violations == ()


def test_float64_and_empty_rows_are_left_to_the_judge():
    x = torch.randn(3, 5, dtype=torch.float64)
    assert not passing(x, torch.softmax(x, dim=1), FORMATS["float64"]).any()
    empty = torch.empty(3, 0)
    assert not passing(empty, empty, FORMATS["float32"]).any()
