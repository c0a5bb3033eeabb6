"""Families of logits that are large, or far from zero, or both."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import FLOAT16, FLOAT64, Format
from softcheck.cases.families.draft import Draft, listed, made
from softcheck.cases.recipe import Constant, Cycle, Mask, Normal, OneHot, Put, RowConstants, Shift, Uniform

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

_NO_OVERFLOW = "x - max must not overflow to NaN before exp turns it into 0"
_SPREADS = (100.0, 1000.0)
"""Largest logits of rows whose differences are beyond the range of exp in float32, and in float64."""
_SPACINGS = (2.0**-5, 0.25, 1.0, 8.0)


def huge(fmt: Format) -> Iterator[Draft]:
    """Logits up to the format's maximum."""
    large = _large(fmt)
    top = [fmt.max, fmt.max / 2, fmt.max / 4, 2.0**fmt.max_exponent]
    yield made(
        "equal-1e8-33" if fmt is not FLOAT16 else "equal-max-33",
        2,
        33,
        RowConstants((min(1e8, fmt.max), -min(1e8, fmt.max))),
        why=12,
        tags="equal shift",
    )
    yield made("one-hot-to-max-7", 7, 7, OneHot("min", "max"), why=_NO_OVERFLOW)
    yield made("last-column-max-513", 2, 513, OneHot("min", "max", 512), why=_NO_OVERFLOW)
    yield made("mixed-signs-129", 2, 129, Cycle(("max", "min", 0.0, 1.0, -1.0)), why=_NO_OVERFLOW, tags="ties")
    yield listed("every-scale-4", [[sign * v, 0.0, -v, v / 2] for v in top for sign in (1, -1)], fmt, why=_NO_OVERFLOW)
    yield made(
        "spread-above-88-513",
        3,
        513,
        Uniform(11, -_SPREADS[0], _SPREADS[0]),
        why="differences beyond the range of exp in float32",
    )
    reason = "differences beyond the range of exp in float64"
    yield made("spread-above-745-257", 2, 257, Uniform(12, -_SPREADS[1], _SPREADS[1]), why=reason)
    yield made("fusion-1e14-257", 3, 257, Normal(13, large), why=11, tags="fusion")
    yield made("fusion-1e14-1025", 2, 1025, Normal(14, large), why=11, tags="fusion")


def _large(fmt: Format) -> float:
    """A standard deviation so large that the logits have nothing behind the point."""
    return min(1e14, fmt.max / 8)


def huge_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``huge``."""
    top = d.fmt.max
    scales = (top, -top, top / 2, -top / 2, top / 4, 2.0**d.fmt.max_exponent, 0.0, 1.0, -1.0)
    return d.by_row(
        lambda d: d.pick(scales),
        *(lambda d, most=most: d.uniform(-most, most) for most in _SPREADS),
        lambda d: d.finite(d.normal(_large(d.fmt))),
        lambda d: d.put(d.full(-top), top),
    )


def shifted(fmt: Format) -> Iterator[Draft]:
    """Rows with equal differences far from zero, exactly: the format's spacing there is the unit of every row."""
    why = "softmax(x + c) = softmax(x): an error that grows with |x| shows, as in a scaling before the subtraction"
    for spacing in _SPACINGS:
        base = spacing * 2.0 ** (fmt.precision - 1)
        steps = max(3, min(2 ** (fmt.precision - 2), 256, int(16 / spacing)))
        # One maximum, so that what lies far below it still has a normal probability.
        below = spacing * np.where(np.arange(33) == 0, 0, 1 + np.arange(33) * 7 % (steps - 1))
        rows = np.array([2 * base - spacing - below, -base - below, 1.5 * base - below])
        yield listed(f"spacing-{spacing:g}-33", rows, fmt, why=why, tags="shift")
    top = 8 * 2.0**fmt.precision - 8
    below = np.array([0, 8, 16, 8, 0, 8, 24, 16, 8])
    same = np.array([top, 24 - top, top / 2 + 4, -top / 2 - 4, 64.0, 0.0])[:, None] - below
    yield listed("same-row-9", same, fmt, why=why, tags="shift")
    yield made(
        "normal-513", 2, 513, Normal(21, 2.0), Shift(0.25 * 2.0 ** (fmt.precision - 1) * 1.5), why=why, tags="shift"
    )
    yield made(
        "spacing-8-1025",
        2,
        1025,
        Cycle(tuple(float(top - 8 * j) for j in (0, 1, 2, 1, 0, 3, 1))),
        why=why,
        tags="shift",
    )


def shifted_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``shifted``: multiples of a spacing far from zero, exact in the format."""
    spacing = d.pick(_SPACINGS, 1)
    base = spacing * 2.0 ** (d.fmt.precision - 1) * d.pick((1.0, -1.0, 1.5, -1.5), 1)
    return d.finite(base + spacing * d.whole(0, min(256, 2 ** (d.fmt.precision - 2))))


def finfo_min(fmt: Format) -> Iterator[Draft]:
    """Rows filled with the format's most negative finite value, as additive masks do."""
    least = -fmt.max
    yield made("all-129", 2, 129, Constant("min"), why=2, tags="equal")
    yield made("all-but-one-129", 2, 129, Normal(31), Mask("all_but", 77, "min"), why=17, tags="mask")
    yield made("additive-mask-385", 2, 385, Normal(32, 2.0), Mask("trailing", 200, "min"), why=17, tags="mask")
    yield made("additive-mask-1025", 2, 1025, Normal(33, 2.0), Mask("leading", 1000, "min"), why=17, tags="mask")
    yield listed(
        "minus-16-5", [[least - 16, least - 16, least, least, least - 16], [least - 16] * 5], fmt, why=18, tags="mask"
    )
    yield listed(
        "plus-min-5",
        [[2 * least, -1.0, 2 * least, 0.0, least], [2 * least, least, least, least, least]],
        fmt,
        why=18,
        tags="mask",
    )
    yield made("with-minus-inf-65", 2, 65, Cycle(("min", "-inf")), why=7, tags="mask")


def finfo_min_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``finfo_min``."""
    return d.normal(2.0).masked_fill_(d.masks(), -d.fmt.max)


_TEMPERED = (1e4, 4e4, 1e-4)
"""Standard deviations of logits divided by a temperature."""


def temperature(fmt: Format) -> Iterator[Draft]:
    """Logits divided by a very small or very large temperature."""
    why = 19
    hot, hotter, cold = _TEMPERED
    yield made("scale-1e4-129", 3, 129, Normal(41, hot), why=why)
    yield made("scale-1e4-1025", 2, 1025, Normal(42, hot), why=why)
    # In float16 some of these overflow to infinity, and the answer of such rows is NaN.
    yield made("scale-4e4-257", 3, 257, Normal(43, hotter), why=why, tags="special" if fmt is FLOAT16 else "")
    reason = "an almost uniform row: the differences are below exp's last digit"
    yield made("scale-1e-4-513", 2, 513, Normal(44, cold), why=reason)


def temperature_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``temperature``."""
    return d.finite(d.normal(d.pick(_TEMPERED, 1)))


def negative(_fmt: Format) -> Iterator[Draft]:
    """Rows whose every logit is far below zero, where padding with 0 takes the whole mass."""
    wide = 29
    yield made("minus-100-129", 2, 129, Normal(51, 1.0, -100.0), why=27, tags="padding")
    yield made("minus-100-513", 2, 513, Normal(52, 1.0, -100.0), why=27, tags="padding")
    yield made(
        "minus-9000-385", 2, 385, Uniform(53, -9064.0, -9000.0), why="far below zero, with a spacing of 8 in float16"
    )
    yield made("minus-100-65537", 2, 65537, Constant(-100.0), why=wide, tags="padding wide")
    yield made("peak-minus-50-129920", 1, 129920, Constant(-80.0), Put(129919, -50.0), why=28, tags="padding wide")


def negative_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``negative``."""
    return d.by_row(
        lambda d: d.normal(1.0, -100.0),
        lambda d: d.uniform(-9064.0, -9000.0),
        lambda d: d.put(d.full(-80.0), -50.0),
    )


def exp_overflow(fmt: Format) -> float:
    """The logit from which exp overflows in the format, or in float32 if that is wider."""
    return {FLOAT16: 11.0903, FLOAT64: 709.783}.get(fmt, 88.7229)


def positive(fmt: Format) -> Iterator[Draft]:
    """Rows whose every logit is positive: without the subtraction of the maximum exp overflows."""
    threshold = exp_overflow(fmt)
    why = "exp overflows unless the maximum is subtracted first"
    yield made("overflow-129", 3, 129, Uniform(61, threshold, threshold + 8), why=why)
    yield made("overflow-1023", 2, 1023, Uniform(62, threshold, 2 * threshold), why=why)
    yield made("around-overflow-7", 2, 7, Cycle((88.72283, 88.72284, 88.7229, 88.0, 89.0, 87.5, 90.0)), why=15)
    sums = {FLOAT16: 65504.0, FLOAT64: 1e308}.get(fmt, _NEAR_MAXIMUM)
    yield made("sum-of-maximum-257", 2, 257, Constant(sums), why=16, tags="equal")


_NEAR_MAXIMUM = 3e38


def positive_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``positive``."""
    threshold = exp_overflow(d.fmt)
    return d.by_row(
        lambda d: d.uniform(threshold, threshold + 8),
        lambda d: d.uniform(threshold, 2 * threshold),
        lambda d: d.full(min(_NEAR_MAXIMUM, d.fmt.max)),
    )
