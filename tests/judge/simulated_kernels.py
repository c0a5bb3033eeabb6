"""A float32 softmax kernel in numpy, step by step as a GPU rounds it, with adversarial errors in exp and division."""

from typing import Literal

import numpy as np

from oracles.formats import Bits, Format, Values, decode, encode

Faults = Literal["none", "random", "up", "down", "top up", "top down"]

LOG2E = np.float32(1.4426950408889634)
WARP = 32


def _ulps(rng: np.random.Generator, faults: Faults, shape: tuple[int, int], top: np.ndarray, most: int) -> np.ndarray:
    """Errors in ULPs of float32: at random, all one way, or those of the largest logits against the others."""
    signs = {
        "none": np.zeros(shape, dtype=np.int64),
        "random": rng.integers(-most, most + 1, shape),
        "up": np.full(shape, most),
        "down": np.full(shape, -most),
        "top up": np.where(top, most, -most),
        "top down": np.where(top, -most, most),
    }
    return signs[faults]


def _shift(values: np.ndarray, ulps: np.ndarray) -> np.ndarray:
    """Nonnegative float32 values moved by whole ULPs, never below 0."""
    moved = values.view(np.int32).astype(np.int64) + np.where(values > 0, ulps, 0)
    return np.maximum(moved, 0).astype(np.int32).view(np.float32)


def _lane_sums(values: np.ndarray) -> np.ndarray:
    """Sums of rows as one warp adds: each lane its columns in turn, then a tree over the lanes; all in float32."""
    rows, columns = values.shape
    padded = np.zeros((rows, -(-columns // WARP) * WARP), dtype=np.float32)
    padded[:, :columns] = values
    lanes = np.zeros((rows, WARP), dtype=np.float32)
    for first in range(0, padded.shape[1], WARP):
        lanes += padded[:, first : first + WARP]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def _serial_sums(values: np.ndarray) -> np.ndarray:
    """Sums of short rows as one thread adds."""
    total = np.zeros(len(values), dtype=np.float32)
    for column in values.T:
        total = total + column
    return total


def softmax(bits: Bits, fmt: Format, faults: Faults, seed: int, *, exp_ulps: int = 2, divide_ulps: int = 2) -> Bits:
    """Softmax of [rows, columns] bit patterns of a 16- or 32-bit format.

    ``exp_ulps`` and ``divide_ulps`` are the largest errors beside the rounding that the simulation does itself.
    """
    rng = np.random.default_rng(seed)
    x = decode(bits, fmt).astype(np.float32)
    with np.errstate(under="ignore", over="ignore"):
        difference = x - x.max(axis=1, keepdims=True)
        scaled: Values = (difference * LOG2E).astype(np.float64)
        exact = np.exp2(scaled)
        powers = exact.astype(np.float32)
        far = difference < 0
        powers = np.where(far, _shift(powers, _ulps(rng, faults, x.shape, difference > -2, exp_ulps)), powers)
        total = (_serial_sums if x.shape[1] <= WARP else _lane_sums)(powers)[:, None]
        quotient = powers / total
        quotient = _shift(quotient, _ulps(rng, faults, x.shape, difference > -2, divide_ulps))
    return encode(quotient.astype(np.float64), fmt)
