"""The case families: the names of the corpora's files, and fresh rows from the ranges of each.

The fixed cases are lines of the corpora, and nothing else gives them: ``softcheck corpus add`` writes more. ``softcheck.cases.random_rows`` and
``softcheck.strategies`` take rows and recipes of the same kinds. Families of one operation name operands beside their matrices.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from oracles.formats import Format
from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_root, load
from softcheck.cases.dtypes import known_dtype
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
from softcheck.errors import UsageError, near_matches

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


def normal_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``normal``."""
    return d.normal(d.pick((0.1, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0), 1))


def uniform_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``uniform``."""
    return d.uniform(-8.0, 8.0, 1).expand(d.rows, d.columns).contiguous()


def ties_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ties``."""
    step = 2.0 ** (1 - d.fmt.precision)
    return d.by_row(
        lambda d: (1.0 + step * d.whole(0, 4)) * d.pick((1.0, -1.0), 1),
        lambda d: d.pick(_FIVE),
        lambda d: d.put(d.put(d.put(d.normal(), _MAXIMUM), _MAXIMUM), _MAXIMUM),
        lambda d: d.pick((0.0, -0.0)),
    )


def one_hot_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``one_hot``."""
    low = d.pick((-2.0, -9.0, -12.0, -20.0, -100.0), 1) + d.uniform(-1.0, 1.0, 1)
    return d.put(low.expand(d.rows, d.columns).contiguous(), d.pick((0.0, 1.0), 1))


def ramp_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ramp``, and rows whose logits grow or fall by one amount from tile to tile.

    A running maximum grows with each tile of these, or is never passed.
    """
    return d.by_row(_slopes, _stairs)


def _slopes(d: "Draw") -> "torch.Tensor":
    steps = d.pick((0.03125, -0.25, 2.0**-10, -0.34657359, 2.0**-8, 0.1, -1.0), 1)
    return d.finite(d.uniform(-20.0, 4.0, 1) + steps * d.index)


def _stairs(d: "Draw") -> "torch.Tensor":
    tile = d.pick((32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0), 1)
    step = d.pick(MAXIMUM_STEPS, 1) * d.pick((1.0, -1.0), 1)
    return d.finite(d.normal().add_((d.index / tile).floor_() * step))


def ordered_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ordered``."""
    values = d.by_row(lambda d: d.uniform(-100.0, 0.0), lambda d: d.normal(20.0), lambda d: d.normal(3.0))
    rising = values.sort(dim=1).values
    return rising.where(d.whole(0, 2, 1) == 0, rising.flip(1))


_SPREADS = (100.0, 1000.0)
"""Largest logits of rows whose differences are beyond the range of exp in float32, and in float64."""

_SPACINGS = (2.0**-5, 0.25, 1.0, 8.0)


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


def shifted_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``shifted``: multiples of a spacing far from zero, exact in the format."""
    spacing = d.pick(_SPACINGS, 1)
    base = spacing * 2.0 ** (d.fmt.precision - 1) * d.pick((1.0, -1.0, 1.5, -1.5), 1)
    return d.finite(base + spacing * d.whole(0, min(256, 2 ** (d.fmt.precision - 2))))


def finfo_min_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``finfo_min``."""
    return d.normal(2.0).masked_fill_(d.masks(), -d.fmt.max)


_TEMPERED = (1e4, 4e4, 1e-4)
"""Standard deviations of logits divided by a temperature."""


def temperature_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``temperature``."""
    return d.finite(d.normal(d.pick(_TEMPERED, 1)))


def negative_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``negative``."""
    return d.by_row(
        lambda d: d.normal(1.0, -100.0),
        lambda d: d.uniform(-9064.0, -9000.0),
        lambda d: d.put(d.full(-80.0), -50.0),
    )


_NEAR_MAXIMUM = 3e38


def positive_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``positive``."""
    threshold = exp_overflow(d.fmt)
    return d.by_row(
        lambda d: d.uniform(threshold, threshold + 8),
        lambda d: d.uniform(threshold, 2 * threshold),
        lambda d: d.full(min(_NEAR_MAXIMUM, d.fmt.max)),
    )


_NEGATIVE = -3.0
"""Mean of the logits that stay: padding counted as 0 would outweigh them."""

INF = float("inf")

NAN = float("nan")


def padding_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``padding``."""
    return d.normal(2.0, _NEGATIVE).masked_fill_(d.masks(), -INF)


_ALWAYS_SPECIAL = 1 << 16
"""Columns beyond which a special value is put into only one row in two, so that ordinary rows are among them."""


def special_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``special``."""
    chance = 1.0 if d.columns <= _ALWAYS_SPECIAL else 0.5
    numbers = d.pick((INF, NAN, -INF), 1)
    return d.put(d.put(d.normal(2.0), numbers, chance), d.pick((INF, NAN, 0.0), 1), 0.25)


def far_below_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``widths`` and ``rows``."""
    return d.normal(2.0, -10.0)


def wide_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``wide``."""
    return d.by_row(far_below_rows, lambda d: d.normal(3.0, -10.0), lambda d: d.uniform(-40.0, 0.0))


_ONES: tuple[Number, ...] = ("max", "min", 88.72284, 0.0, "least_subnormal", -100.0)


def one_column_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``one_column``."""
    values = [number(value, d.fmt) for value in _ONES]
    return d.by_row(lambda d: d.pick(values), lambda d: d.normal(30.0))


def subnormal_logits_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``subnormal_logits``."""
    return d.put(d.pick(subnormals(d.fmt)), d.pick((-4.0, 2.0, 0.0), 1), 0.5)


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


def cancellation_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``cancellation``."""
    return d.by_row(
        lambda d: d.put(d.pick(_ABSORBED, 1).expand(d.rows, d.columns).contiguous(), 0.0),
        lambda d: d.pick(EXP_THRESHOLDS),
        lambda d: d.put(d.normal(0.01), 20.0),
        lambda d: d.normal(1000.0).masked_fill_(d.index % 2 == 1, _EVERY_SECOND),
    )


def format_specials_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``format_specials``, of finite patterns."""
    return d.of_patterns(d.pick_whole(edge_patterns(d.fmt)))


def random_bits_rows(d: "Draw", special: int = 4) -> "torch.Tensor":
    """Draws rows of ``random_bits``; one row in ``special``, if it is not 0, holds any pattern in its first columns."""
    patterns = d.whole(0, 1 << d.fmt.width)
    infinite = (patterns & d.fmt.exponent_mask) == d.fmt.exponent_mask
    if special:
        infinite &= ~((d.whole(0, special, 1) == 0) & (d.index < 8))
    return d.of_patterns((patterns ^ (1 << (d.fmt.precision - 1))).where(infinite, patterns))


FAMILIES: dict[str, Family] = {
    "huge": Family(huge_rows, "logits up to the format's maximum"),
    "shifted": Family(shifted_rows, "the same differences far from zero"),
    "padding": Family(padding_rows, "-inf logits: leading, trailing, alternating, all but one, all"),
    "special": Family(special_rows, "+inf and NaN at every kind of place"),
    "widths": Family(far_below_rows, "column counts around powers of two, negative logits"),
    "finfo-min": Family(finfo_min_rows, "the format's most negative finite value as a mask"),
    "subnormal-logits": Family(subnormal_logits_rows, "subnormal logits"),
    "subnormal-results": Family(subnormal_results_rows, "probabilities that are subnormal or round to zero"),
    "ties": Family(ties_rows, "equal and neighbouring logits"),
    "one-hot": Family(one_hot_rows, "one peak at every position"),
    "ramp": Family(ramp_rows, "equally spaced logits"),
    "normal": Family(normal_rows, "normal logits, scale 0.1 to 100"),
    "uniform": Family(uniform_rows, "equal logits: every probability is 1/N"),
    "negative": Family(negative_rows, "every logit far below zero"),
    "positive": Family(positive_rows, "every logit where exp alone overflows"),
    "sorted": Family(ordered_rows, "ascending and descending rows"),
    "one-column": Family(one_column_rows, "one column: probability 1"),
    "empty": Family(None, "no rows, no columns"),
    "layout": Family(normal_rows, "row steps, slices, transposed and expanded matrices, odd offsets"),
    "sources": Family(normal_rows, "shapes of the tutorials"),
    "wide": Family(wide_rows, "65536 to 2^20 columns"),
    "rows": Family(far_below_rows, "row counts around 65536"),
    "temperature": Family(temperature_rows, "logits times 1e4"),
    "format-specials": Family(format_specials_rows, "patterns at the format's edges, NaN payloads"),
    "random-bits": Family(random_bits_rows, "random bit patterns"),
    "cancellation": Family(cancellation_rows, "sums and differences that lose digits"),
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


def cases_of(family: str, dtype: str) -> list[Case]:
    """The cases of a family in one dtype. Raises UsageError for an unknown name of either."""
    known = [*FAMILIES, *_OPERATIONS]
    if family not in known:
        raise UsageError(f"unknown family {family!r}; {near_matches(family, known)}")
    wanted = known_dtype(dtype)
    file = builtin_root() / _OPERATIONS.get(family, "edge") / f"{family}.jsonl"
    return [case for case in load([file]) if case.dtype == wanted]
