"""The case families: the names of the corpora's files, and fresh rows from the ranges of each.

The fixed cases are lines of the corpora, and nothing else gives them: ``softcheck corpus add`` writes more. ``softcheck.cases.random_rows`` and
``softcheck.strategies`` take rows and recipes of the same kinds. Families of one operation name operands beside their matrices.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from softcheck.cases.edges import (
    EXP_THRESHOLDS,
    MAXIMUM_STEPS,
    edge_patterns,
    exp_overflow,
    least_normal_distance,
    subnormals,
    zero_distance,
)
from softcheck.cases.recipe import Number, number

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw


class Family(NamedTuple):
    """A named group of cases."""

    rows: "Callable[[Draw], torch.Tensor] | None"
    """Draws fresh rows, of any number and width; None if the family's cases have no elements. A family that is special
    only by its shape or strides draws another family's rows."""
    description: str
    """One line."""


_FIVE = (0.0, -0.5, 3.25, 3.0, -7.0)
"""Values of rows of ties."""
_MAXIMUM = 6.5
"""A logit above all others of a normal row, in several columns."""
_SPREADS = (100.0, 1000.0)
"""Largest logits of rows whose differences are beyond the range of exp in float32, and in float64."""
_NEGATIVE = -3.0
"""Mean of the logits that stay: padding counted as 0 would outweigh them."""
_ALWAYS_SPECIAL = 1 << 16
"""Columns beyond which a special value is put into only one row in two, so that ordinary rows are among them."""
_ONES: tuple[Number, ...] = ("max", "min", 88.72284, 0.0, "least_subnormal", -100.0)
_ABSORBED = (-17.5, -16.75)
"""Logits below a peak of 0 that a running sum in float32 absorbs."""
_EVERY_SECOND = 1000.125
"""The logit of every second column, beside normal logits of standard deviation 1000."""
_INF, _NAN = float("inf"), float("nan")


def _same(d: "Draw", of_rows: "torch.Tensor") -> "torch.Tensor":
    """One number in all columns of each row."""
    return of_rows.expand(d.rows, d.columns).contiguous()


def _normal(d: "Draw") -> "torch.Tensor":
    return d.normal(d.pick((0.1, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0), 1))


def _one_hot(d: "Draw") -> "torch.Tensor":
    low = d.pick((-2.0, -9.0, -12.0, -20.0, -100.0), 1) + d.uniform(-1.0, 1.0, 1)
    return d.put(_same(d, low), d.pick((0.0, 1.0), 1))


def _ties(d: "Draw") -> "torch.Tensor":
    step = 2.0 ** (1 - d.fmt.precision)
    return d.by_row(
        lambda d: (1.0 + step * d.whole(0, 4)) * d.pick((1.0, -1.0), 1),
        lambda d: d.pick(_FIVE),
        lambda d: d.put(d.put(d.put(d.normal(), _MAXIMUM), _MAXIMUM), _MAXIMUM),
        lambda d: d.pick((0.0, -0.0)),
    )


def _slopes(d: "Draw") -> "torch.Tensor":
    steps = d.pick((0.03125, -0.25, 2.0**-10, -0.34657359, 2.0**-8, 0.1, -1.0), 1)
    return d.finite(d.uniform(-20.0, 4.0, 1) + steps * d.index)


def _stairs(d: "Draw") -> "torch.Tensor":
    """Logits that grow or fall by one amount from tile to tile: a running maximum grows with each tile, or is never passed."""
    tile = d.pick((32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0), 1)
    step = d.pick(MAXIMUM_STEPS, 1) * d.pick((1.0, -1.0), 1)
    return d.finite(d.normal().add_((d.index / tile).floor_() * step))


def _sorted(d: "Draw") -> "torch.Tensor":
    values = d.by_row(lambda d: d.uniform(-100.0, 0.0), lambda d: d.normal(20.0), lambda d: d.normal(3.0))
    rising = values.sort(dim=1).values
    return rising.where(d.whole(0, 2, 1) == 0, rising.flip(1))


def _huge(d: "Draw") -> "torch.Tensor":
    top = d.fmt.max
    scales = (top, -top, top / 2, -top / 2, top / 4, 2.0**d.fmt.max_exponent, 0.0, 1.0, -1.0)
    return d.by_row(
        lambda d: d.pick(scales),
        *(lambda d, most=most: d.uniform(-most, most) for most in _SPREADS),
        # A standard deviation so large that the logits have nothing behind the point.
        lambda d: d.finite(d.normal(min(1e14, top / 8))),
        lambda d: d.put(d.full(-top), top),
    )


def _shifted(d: "Draw") -> "torch.Tensor":
    """Multiples of a spacing far from zero, exact in the format."""
    spacing = d.pick((2.0**-5, 0.25, 1.0, 8.0), 1)
    base = spacing * 2.0 ** (d.fmt.precision - 1) * d.pick((1.0, -1.0, 1.5, -1.5), 1)
    return d.finite(base + spacing * d.whole(0, min(256, 2 ** (d.fmt.precision - 2))))


def _positive(d: "Draw") -> "torch.Tensor":
    threshold = exp_overflow(d.fmt)
    return d.by_row(
        lambda d: d.uniform(threshold, threshold + 8),
        lambda d: d.uniform(threshold, 2 * threshold),
        lambda d: d.full(min(3e38, d.fmt.max)),
    )


def _special(d: "Draw") -> "torch.Tensor":
    chance = 1.0 if d.columns <= _ALWAYS_SPECIAL else 0.5
    numbers = d.pick((_INF, _NAN, -_INF), 1)
    return d.put(d.put(d.normal(2.0), numbers, chance), d.pick((_INF, _NAN, 0.0), 1), 0.25)


def _far_below(d: "Draw") -> "torch.Tensor":
    return d.normal(2.0, -10.0)


def _subnormal_results(d: "Draw") -> "torch.Tensor":
    normal, zero = least_normal_distance(d.fmt), zero_distance(d.fmt)
    spans = ((zero, 0.0), (zero, normal), (zero + 1, zero - 1), (normal + 1, normal - 1))
    return d.by_row(
        *(lambda d, far=far, near=near: d.put(d.uniform(-far, -near), 0.0) for far, near in spans),
        lambda d: d.put(d.full(-2 * zero), 0.0),
    )


def _cancellation(d: "Draw") -> "torch.Tensor":
    return d.by_row(
        lambda d: d.put(_same(d, d.pick(_ABSORBED, 1)), 0.0),
        lambda d: d.pick(EXP_THRESHOLDS),
        lambda d: d.put(d.normal(0.01), 20.0),
        lambda d: d.normal(1000.0).masked_fill_(d.index % 2 == 1, _EVERY_SECOND),
    )


def random_bits_rows(d: "Draw", special: int = 4) -> "torch.Tensor":
    """Draws rows of ``random_bits``; one row in ``special``, if it is not 0, holds any pattern in its first columns."""
    patterns = d.whole(0, 1 << d.fmt.width)
    infinite = (patterns & d.fmt.exponent_mask) == d.fmt.exponent_mask
    if special:
        infinite &= ~((d.whole(0, special, 1) == 0) & (d.index < 8))
    return d.of_patterns((patterns ^ (1 << (d.fmt.precision - 1))).where(infinite, patterns))


FAMILIES: dict[str, Family] = {
    "huge": Family(_huge, "logits up to the format's maximum"),
    "shifted": Family(_shifted, "the same differences far from zero"),
    "padding": Family(
        lambda d: d.normal(2.0, _NEGATIVE).masked_fill_(d.masks(), -_INF),
        "-inf logits: leading, trailing, alternating, all but one, all",
    ),
    "special": Family(_special, "+inf and NaN at every kind of place"),
    "widths": Family(_far_below, "column counts around powers of two, negative logits"),
    "finfo-min": Family(
        lambda d: d.normal(2.0).masked_fill_(d.masks(), -d.fmt.max),
        "the format's most negative finite value as a mask",
    ),
    "subnormal-logits": Family(
        lambda d: d.put(d.pick(subnormals(d.fmt)), d.pick((-4.0, 2.0, 0.0), 1), 0.5), "subnormal logits"
    ),
    "subnormal-results": Family(_subnormal_results, "probabilities that are subnormal or round to zero"),
    "ties": Family(_ties, "equal and neighbouring logits"),
    "one-hot": Family(_one_hot, "one peak at every position"),
    "ramp": Family(lambda d: d.by_row(_slopes, _stairs), "equally spaced logits"),
    "normal": Family(_normal, "normal logits, scale 0.1 to 100"),
    "uniform": Family(lambda d: _same(d, d.uniform(-8.0, 8.0, 1)), "equal logits: every probability is 1/N"),
    "negative": Family(
        lambda d: d.by_row(
            lambda d: d.normal(1.0, -100.0),
            lambda d: d.uniform(-9064.0, -9000.0),
            lambda d: d.put(d.full(-80.0), -50.0),
        ),
        "every logit far below zero",
    ),
    "positive": Family(_positive, "every logit where exp alone overflows"),
    "sorted": Family(_sorted, "ascending and descending rows"),
    "one-column": Family(
        lambda d: d.by_row(lambda d: d.pick([number(each, d.fmt) for each in _ONES]), lambda d: d.normal(30.0)),
        "one column: probability 1",
    ),
    "empty": Family(None, "no rows, no columns"),
    "layout": Family(_normal, "row steps, slices, transposed and expanded matrices, odd offsets"),
    "sources": Family(_normal, "shapes of the tutorials"),
    "wide": Family(
        lambda d: d.by_row(_far_below, lambda d: d.normal(3.0, -10.0), lambda d: d.uniform(-40.0, 0.0)),
        "65536 to 2^20 columns",
    ),
    "rows": Family(_far_below, "row counts around 65536"),
    "temperature": Family(lambda d: d.finite(d.normal(d.pick((1e4, 4e4, 1e-4), 1))), "logits times 1e4"),
    "format-specials": Family(
        lambda d: d.of_patterns(d.pick_whole(edge_patterns(d.fmt))), "patterns at the format's edges, NaN payloads"
    ),
    "random-bits": Family(random_bits_rows, "random bit patterns"),
    "cancellation": Family(_cancellation, "sums and differences that lose digits"),
}
"""Families whose logits several operations take, by name, in the order of reports; their corpus is ``edge``."""

OF_OPERATIONS: dict[str, dict[str, str]] = {
    "softmax": {
        "hidden": "masks as arguments, and what they hide",
        "biases": "masks with values that are added",
        "scales": "scales and temperatures as arguments",
    },
    "log_softmax": {"log-probabilities": "offsets, sums that stick, logarithms of 0"},
    "logsumexp": {"log-sums": "answers near 0, infinite, or of parts of different size"},
    "cross_entropy": {
        "targets": "targets at seams, peaks, masked and far columns",
        "ignored-rows": "rows with the ignore_index",
        "label-smoothing": "label smoothing, with and without ignored rows",
    },
    "softmax_backward": {"softmax-gradients": "gradients of a softmax's output, and outputs that are none"},
    "log_softmax_backward": {"log-softmax-gradients": "gradients of a log-softmax's output"},
    "attention": {
        "heads": "scores of attention: hidden tiles, tails and parts, sentinels",
        "far-sinks": "scores of attention far below or far above a sink",
    },
}
"""The families of each operation, which name operands and parameters, each with a line; their corpus has the operation's name."""

_OPERATIONS = {family: name for name, families in OF_OPERATIONS.items() for family in families}


def operation_of(family: str) -> str | None:
    """The operation whose own a family is; None for one of ``FAMILIES`` and for a name of the user's."""
    return _OPERATIONS.get(family)
