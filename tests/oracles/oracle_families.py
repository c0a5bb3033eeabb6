"""Small deterministic inputs for the oracles, and the comparison of two references."""

import numpy as np

from oracles.formats import FORMATS

INF = np.inf


def _matrix(*rows):
    return np.array(rows, dtype=np.float64)


def _families():
    rng = np.random.default_rng(20240607)
    made = {
        "normal": rng.normal(size=(12, 67)) * 3,
        "normal_wide": rng.normal(size=(3, 1025)) * 30,
        "small_scale": rng.normal(size=(4, 129)) * 0.1,
        "ramp": np.arange(300.0)[None, :] * np.array([[0.25], [1.0], [3.0]]),
        "equal": np.repeat(_matrix([1e8], [0.0], [-3.5]), 48, axis=1),
        "equal_power_of_two": np.full((2, 64), 1e8),
        "one_hot": np.where(np.eye(7, dtype=bool), 20.0, -20.0),
        "one_hot_far": np.where(np.eye(8, dtype=bool), 1e30, 0.0),
        "ties": rng.choice([0.0, 1.0, 1.5], size=(6, 33)),
        "spread_88": rng.uniform(-100, 0, size=(4, 50)),
        "spread_745": rng.uniform(-760, 0, size=(6, 40)),
        "spread_1200": rng.uniform(-1300, 0, size=(6, 40)),
        "opposite_maxima": _matrix(*[[f.max, -f.max, f.max / 2, 0.0] for f in FORMATS.values()]),
        "equal_maxima": _matrix(*[[f.max, f.max, -f.max] for f in FORMATS.values()]),
        "subnormal_logits": _matrix(
            *[[0.0, f.least_subnormal, -f.least_subnormal, 3 * f.least_subnormal] for f in FORMATS.values()]
        ),
        "subnormal_pair": _matrix([0.0, 5e-324], [-5e-324, 5e-324], [0.0, 1e-300]),
        "masked": np.where(rng.random((8, 31)) < 0.5, -INF, rng.normal(size=(8, 31))),
        "all_but_one_masked": np.where(np.eye(5, dtype=bool), 3.0, -INF),
        "masked_uniform": np.where(np.arange(20) % 5 < 2, -INF, np.zeros((2, 20))),
        "copies_and_far": _matrix([2.0] * 4 + [-1e4], [2.0] * 4 + [-1e300], [2.0] * 3 + [-1e300, -INF]),
        "copies_and_near": np.array([[0.0] * 8 + [-d] for d in (30.0, 36.0, 37.0, 38.0, 70.0, 75.0, 80.0, 700.0)]),
        "symmetric_cancelling": _matrix([-1e-30, 0.0, 1e-30, 0.0], [-1e-100, 0.0, 1e-100, 0.0]),
        "one_column": _matrix([3.0], [-1e308], [0.0]),
        "no_columns": np.zeros((3, 0)),
        "no_rows": np.zeros((0, 5)),
        "two_columns": _matrix(*[[0.0, -d] for d in np.linspace(0, 50, 41)]),
    }
    for f in FORMATS.values():
        # e^-d between a quarter of the least subnormal and four times the least normal.
        nearest, furthest = -np.log(4 * f.least_normal), (f.precision + 1 - f.min_exponent) * np.log(2)
        made[f"subnormal_results_{f.name}"] = np.hstack(
            (np.zeros((2, 1)), -np.linspace(nearest, furthest, 60).reshape(2, 30))
        )
    return made


FAMILIES = _families()
SPECIAL = np.array(
    [
        [np.nan, 0.0, 1.0],
        [INF, 0.0, 1.0],
        [INF, -INF, np.nan],
        [INF, INF, INF],
        [-INF, -INF, -INF],
        [0.0, -INF, 0.0],
        [0.0, np.nan, -INF],
    ]
)


def disagreement(a, b):
    """Largest ratio of the difference of two references to the sum of their stated bounds; 0 for no elements.

    References of different shape, or NaN in different places, disagree infinitely.
    """
    if a.high.shape != b.high.shape or not np.array_equal(np.isnan(a.high), np.isnan(b.high)):
        return np.inf
    if a.high.size == 0:
        return 0.0
    number = ~np.isnan(a.high)
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        base = np.where(b.high == 0, a.exponent, b.exponent)
        shift = a.exponent - base
        difference = np.abs(
            (np.ldexp(a.high, shift) - np.where(b.high == 0, 0.0, b.high))
            + (np.ldexp(a.low, shift) - np.where(b.high == 0, 0.0, b.low))
        )
        size = np.maximum(np.ldexp(np.abs(a.high), shift), np.abs(b.high))
        # 2^-104 is what this comparison in float64 may lose itself.
        allowed = (a.relative_error + b.relative_error + 2.0**-104) * size + np.ldexp(
            a.absolute_error + b.absolute_error, -base
        )
        ratio = np.where(difference == 0, 0.0, difference / np.where(allowed > 0, allowed, np.nan))
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio)[number], initial=0.0))
