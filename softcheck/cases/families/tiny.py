"""Families of subnormal logits and results, and of sums and differences that lose digits."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format
from softcheck.cases.families.draft import Draft, listed, made
from softcheck.cases.recipe import Choice, Cycle, Mask, Normal, OneHot, Put, Ramp, Uniform

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

LN2 = 0.6931471805599453

EXP_THRESHOLDS = (0.0, -87.0, -87.33, -87.34, -87.4, -88.0, -88.73, -103.0, -103.27, -103.28, -103.97, -103.98, -104.0)
"""Arguments around which exp in float32 turns subnormal, and zero."""

MAXIMUM_STEPS = (1.0, 20.0, 50.0, 88.0, 89.0, 104.0, 150.0, 1e4)
"""Growth of the maximum between tiles: within one rounding, across half of float32's range, at exp's thresholds of
underflow and overflow, and far beyond."""


def least_normal_distance(fmt: Format) -> float:
    """Distance below the maximum at which a logit's exponential is the least normal number, 2^emin."""
    return -fmt.min_exponent * LN2


def zero_distance(fmt: Format) -> float:
    """Distance below the maximum at which a logit's exponential is half the least subnormal and rounds to zero."""
    return (fmt.precision - fmt.min_exponent) * LN2


def subnormals(fmt: Format) -> tuple[float, ...]:
    """The least and the largest subnormal of both signs, the least normal number, and zeros."""
    least, largest = fmt.least_subnormal, fmt.least_normal - fmt.least_subnormal
    return least, -least, largest, -largest, fmt.least_normal, 0.0, -0.0


def subnormal_logits(fmt: Format) -> Iterator[Draft]:
    """Logits that are subnormal: the answer is uniform, flushed or not."""
    items = subnormals(fmt)
    why = "exp(x) = 1 for every subnormal x: flushing the logits must not change the row"
    yield made("mixed-65", 3, 65, Choice(1, items), why=why)
    yield made("mixed-513", 2, 513, Choice(2, items), why=why)
    yield made("beside-large-129", 2, 129, Choice(3, items), Put(64, -4.0), Put(0, 2.0, row=1), why=why)


def subnormal_logits_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``subnormal_logits``."""
    return d.put(d.pick(subnormals(d.fmt)), d.pick((-4.0, 2.0, 0.0), 1), 0.5)


def subnormal_results(fmt: Format) -> Iterator[Draft]:
    """Probabilities that are subnormal in the format, down to probabilities that round to zero."""
    normal, zero = least_normal_distance(fmt), zero_distance(fmt)
    tags = "subnormal"
    why = "results between 2^emin and half the least subnormal, where a flush to zero shows"
    yield made("ramp-129", 2, 129, Ramp(0.0, -zero / 120), why=why, tags=tags)
    around_zero = np.concatenate([[0.0], -zero + np.arange(-16, 16) / 16])
    around_normal = np.concatenate([[0.0], -normal + np.arange(-16, 16) / 16])
    yield listed("around-thresholds-33", np.stack([around_zero, around_normal]), fmt, why=why, tags=tags)
    yield made("one-peak-513", 2, 513, OneHot(-(normal + zero) / 2, 0.0, 0), why=why, tags=tags)
    yield made("spread-257", 3, 257, Uniform(1, -zero, 0.0), why=why, tags=tags)
    yield made("spread-1025", 2, 1025, Uniform(2, -zero, -normal), Put(7, 0.0), why=why, tags=tags)
    yield made("vanish-65", 2, 65, OneHot(-2 * zero, 0.0, 64), why=14, tags=tags)


def subnormal_results_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``subnormal_results``."""
    normal, zero = least_normal_distance(d.fmt), zero_distance(d.fmt)
    spans = ((zero, 0.0), (zero, normal), (zero + 1, zero - 1), (normal + 1, normal - 1))
    return d.by_row(
        *(lambda d, far=far, near=near: d.put(d.uniform(-far, -near), 0.0) for far, near in spans),
        lambda d: d.put(d.full(-2 * zero), 0.0),
    )


_ABSORBED = (-17.5, -16.75)
"""Logits below a peak of 0 that a running sum in float32 absorbs."""
_EVERY_SECOND = 1000.125
"""The logit of every second column, beside normal logits of standard deviation 1000."""


def cancellation(_fmt: Format) -> Iterator[Draft]:
    """Sums and differences that lose digits, and arguments of exp at its thresholds."""
    absorbed = "terms that a running sum absorbs one by one, though together they count"
    yield made("absorbed-4097", 2, 4097, OneHot(_ABSORBED[0], 0.0, 0), why=absorbed, tags="sum")
    yield made("absorbed-65537", 1, 65537, OneHot(_ABSORBED[1], 0.0, 0), why=absorbed, tags="sum wide")
    reason = "exp in float32 turns subnormal at -87.34 and zero at -103.97"
    yield made("float32-exp-thresholds-13", 2, 13, Cycle(EXP_THRESHOLDS), why=reason)
    wide_thresholds = (0.0, -708.0, -708.39, -708.4, -745.0, -745.13, -745.14, -746.0)
    reason = "exp in float64 turns subnormal at -708.4 and zero at -745.13"
    yield made("float64-exp-thresholds-8", 2, 8, Cycle(wide_thresholds), why=reason)
    reason = "x - max drops the last digits of small x"
    yield made("far-peak-513", 2, 513, Normal(71, 0.01), Put(511, 20.0), why=reason, tags="difference")
    yield made(
        "two-scales-1025",
        2,
        1025,
        Normal(72, 1000.0),
        Mask("odd", value=_EVERY_SECOND),
        why="large and small differences in one row",
        tags="difference",
    )


def cancellation_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``cancellation``."""
    return d.by_row(
        lambda d: d.put(d.pick(_ABSORBED, 1).expand(d.rows, d.columns).contiguous(), 0.0),
        lambda d: d.pick(EXP_THRESHOLDS),
        lambda d: d.put(d.normal(0.01), 20.0),
        lambda d: d.normal(1000.0).masked_fill_(d.index % 2 == 1, _EVERY_SECOND),
    )
