"""The case families: one definition each, from which the edge corpus, random rows and hypothesis strategies are drawn.

Each family draws its fresh rows beside its fixed cases. ``softcheck.cases.random_rows`` and ``softcheck.strategies`` take
them from here. Families of one operation name operands beside their matrices. ``python -m softcheck.cases.families corpora``
writes the corpora anew, one file per family.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from oracles.formats import FORMATS, Format
from softcheck.cases.case import Case
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.families import (
    heads,
    hidden,
    layouts,
    logarithms,
    magnitude,
    masking,
    output_gradients,
    patterns,
    plain,
    shapes,
    targets,
    tiny,
)
from softcheck.cases.families.draft import Draft
from softcheck.errors import UsageError, near_matches

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

__all__ = ["FAMILIES", "OF_OPERATIONS", "Family", "cases_of", "operation_of"]


class Family(NamedTuple):
    """A named group of cases: the fixed ones of the corpus, and fresh rows from the same ranges."""

    drafts: Callable[[Format], Iterator[Draft]]
    rows: "Callable[[Draw], torch.Tensor] | None"
    """Draws fresh rows, of any number and width; None if the family's cases have no elements. A family that is special
    only by its shape or strides draws another family's rows."""
    description: str
    """One line."""


class OwnFamily(NamedTuple):
    """A named group of cases of one operation, whose operands random rows can't have."""

    drafts: Callable[[Format], Iterator[Draft]]
    description: str
    """One line."""


FAMILIES: dict[str, Family] = {
    "huge": Family(magnitude.huge, magnitude.huge_rows, "logits up to the format's maximum"),
    "shifted": Family(magnitude.shifted, magnitude.shifted_rows, "the same differences far from zero"),
    "padding": Family(
        masking.padding, masking.padding_rows, "-inf logits: leading, trailing, alternating, all but one, all"
    ),
    "special": Family(masking.special, masking.special_rows, "+inf and NaN at every kind of place"),
    "widths": Family(shapes.widths, shapes.far_below_rows, "column counts around powers of two, negative logits"),
    "finfo-min": Family(
        magnitude.finfo_min, magnitude.finfo_min_rows, "the format's most negative finite value as a mask"
    ),
    "subnormal-logits": Family(tiny.subnormal_logits, tiny.subnormal_logits_rows, "subnormal logits"),
    "subnormal-results": Family(
        tiny.subnormal_results, tiny.subnormal_results_rows, "probabilities that are subnormal or round to zero"
    ),
    "ties": Family(plain.ties, plain.ties_rows, "equal and neighbouring logits"),
    "one-hot": Family(plain.one_hot, plain.one_hot_rows, "one peak at every position"),
    "ramp": Family(plain.ramp, plain.ramp_rows, "equally spaced logits"),
    "normal": Family(plain.normal, plain.normal_rows, "normal logits, scale 0.1 to 100"),
    "uniform": Family(plain.uniform, plain.uniform_rows, "equal logits: every probability is 1/N"),
    "negative": Family(magnitude.negative, magnitude.negative_rows, "every logit far below zero"),
    "positive": Family(magnitude.positive, magnitude.positive_rows, "every logit where exp alone overflows"),
    "sorted": Family(plain.ordered, plain.ordered_rows, "ascending and descending rows"),
    "one-column": Family(shapes.one_column, shapes.one_column_rows, "one column: probability 1"),
    "empty": Family(shapes.empty, None, "no rows, no columns"),
    "layout": Family(
        layouts.layout, plain.normal_rows, "row steps, slices, transposed and expanded matrices, odd offsets"
    ),
    "sources": Family(shapes.sources, plain.normal_rows, "shapes of the tutorials"),
    "wide": Family(shapes.wide, shapes.wide_rows, "65536 to 2^20 columns"),
    "rows": Family(shapes.rows, shapes.far_below_rows, "row counts around 65536"),
    "temperature": Family(magnitude.temperature, magnitude.temperature_rows, "logits times 1e4"),
    "format-specials": Family(
        patterns.format_specials, patterns.format_specials_rows, "patterns at the format's edges, NaN payloads"
    ),
    "random-bits": Family(patterns.random_bits, patterns.random_bits_rows, "random bit patterns"),
    "cancellation": Family(tiny.cancellation, tiny.cancellation_rows, "sums and differences that lose digits"),
}
"""Every family whose logits several operations take, by name, in the order of reports."""

OF_OPERATIONS: dict[str, dict[str, OwnFamily]] = {
    "softmax": {
        "hidden": OwnFamily(hidden.hidden, "masks as arguments, and what they hide"),
        "biases": OwnFamily(hidden.biases, "masks with values that are added"),
        "scales": OwnFamily(hidden.scales, "scales and temperatures as arguments"),
    },
    "log_softmax": {
        "log-probabilities": OwnFamily(logarithms.log_probabilities, "offsets, sums that stick, logarithms of 0"),
    },
    "logsumexp": {
        "log-sums": OwnFamily(logarithms.log_sums, "answers near 0, infinite, or of parts of different size"),
    },
    "cross_entropy": {
        "targets": OwnFamily(targets.targets, "targets at seams, peaks, masked and far columns"),
        "ignored-rows": OwnFamily(targets.ignored_rows, "rows with the ignore_index"),
        "label-smoothing": OwnFamily(targets.label_smoothing, "label smoothing, with and without ignored rows"),
    },
    "softmax_backward": {
        "softmax-gradients": OwnFamily(
            output_gradients.gradients_of_softmax, "gradients of a softmax's output, and outputs that are none"
        ),
    },
    "log_softmax_backward": {
        "log-softmax-gradients": OwnFamily(
            output_gradients.gradients_of_log_softmax, "gradients of a log-softmax's output"
        ),
    },
    "attention": {
        "heads": OwnFamily(heads.heads, "scores of attention: hidden tiles, tails and parts, sentinels"),
    },
}
"""The families of each operation, which name operands and parameters."""

_OPERATIONS = {family: name for name, families in OF_OPERATIONS.items() for family in families}


def operation_of(family: str) -> str | None:
    """The operation whose own a family is; None for one of ``FAMILIES`` and for a name of the user's."""
    return _OPERATIONS.get(family)


def cases_of(family: str, dtype: str) -> list[Case]:
    """The cases of a family in one dtype. Raises UsageError for an unknown name of either."""
    known: dict[str, Family | OwnFamily] = {**FAMILIES}
    for families in OF_OPERATIONS.values():
        known |= families
    if family not in known:
        raise UsageError(f"unknown family {family!r}; {near_matches(family, list(known))}")
    fmt = FORMATS[known_dtype(dtype)]
    return [draft.case(family, fmt) for draft in known[family].drafts(fmt)]
