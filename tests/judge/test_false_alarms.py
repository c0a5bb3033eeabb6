"""A correct kernel at its very worst must not be reported, and its errors must come near the bound."""

import numpy as np
import pytest
from judge_helpers import matrix
from simulated_kernels import Faults, softmax

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, Format, Values
from softcheck.judge.judge import judge

COLUMNS = (1, 2, 3, 7, 31, 32, 33, 64, 127, 256, 781, 2048)
ROWS = 4


def families(columns: int) -> Values:
    """Twenty kinds of rows, four of each."""
    rng = np.random.default_rng(columns)
    shape = (ROWS, columns)
    normal, uniform, index = rng.standard_normal(shape), rng.uniform(size=shape), np.arange(columns)
    shifts = np.array([[0.0], [3.3], [-1e3], [6e4]])
    kinds = [
        normal,
        normal * 0.1,
        normal * 10,
        normal * 40,
        normal * 1000,
        normal * 2 + shifts,
        uniform * -17,
        uniform * -104,
        uniform * -1e-3,
        uniform * 4e4 - 6e4,
        np.zeros(shape) + shifts,
        np.tile(index / columns, (ROWS, 1)) * np.array([[1.0], [9.0], [80.0], [110.0]]),
        -np.tile(np.sqrt(index), (ROWS, 1)),
        np.where(index == index[-1] // 2, 0.0, -1.0) * np.array([[0.01], [5.5], [12.0], [88.0]]),
        np.where(index % 2, 0.0, -0.337) + np.zeros(shape),
        np.where(index % 7 == 3, 20.0, 0.3) + normal * 0.01,
        np.log(uniform + 1e-6),
        -np.log1p(np.tile(index, (ROWS, 1))) * np.array([[0.5], [1.0], [2.0], [3.0]]),
        np.where(uniform < 0.3, -np.inf, normal * 3),
        np.where(uniform < 0.5, 0.0, np.where(normal > 0, -16.6, -8.3)),
    ]
    kinds[18][:, 0] = 1.0
    assert len(kinds) == 20
    return np.concatenate(kinds)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
@pytest.mark.parametrize("faults", ["none", "random", "up", "down", "top up", "top down"])
def test_a_correct_kernel_never_breaks_the_bound(fmt: Format, faults: Faults) -> None:
    shares = []
    for columns in COLUMNS:
        bits = matrix(np.clip(families(columns), -fmt.max, None), fmt)
        bits[np.isneginf(families(columns))] = matrix([[-np.inf]], fmt)[0, 0]
        found = judge(bits, softmax(bits, fmt, faults, seed=columns), fmt)
        assert found.violations == (), f"{columns} columns"
        assert found.max_bound_share is not None
        shares.append(found.max_bound_share.value)
    # A bound of which nothing near its limit is ever used would acquit wrong kernels.
    assert max(shares) > (0.3 if fmt is FLOAT32 else 0.9)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
def test_a_kernel_ten_times_worse_is_found(fmt: Format) -> None:
    bits = matrix(families(64)[: 4 * ROWS], fmt)
    factor = {16: 2 ** (23 - fmt.precision), 32: 10}[fmt.width]
    found = judge(bits, softmax(bits, fmt, "random", seed=0, exp_ulps=10 * factor, divide_ulps=10 * factor), fmt)
    assert found.violations != ()
