"""The case families: one definition each, from which the edge corpus, random rows and hypothesis strategies are drawn.

Each family draws its fresh rows beside its fixed cases. ``softcheck.cases.random_rows`` and ``softcheck.strategies`` take
them from here. ``python -m softcheck.cases.families corpora/edge`` writes the
corpus anew, one file per family, and with an operation's name behind the folder the operation's own.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from oracles.formats import FORMATS, Format
from softcheck.cases.case import Case
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.families import heads, layouts, magnitude, masking, patterns, plain, shapes, tiny
from softcheck.cases.families.draft import Draft
from softcheck.errors import UsageError, near_matches

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

__all__ = ["FAMILIES", "Family", "cases_of"]


class Family(NamedTuple):
    """A named group of cases: the fixed ones of the corpus, and fresh rows from the same ranges."""

    drafts: Callable[[Format], Iterator[Draft]]
    rows: "Callable[[Draw], torch.Tensor] | None"
    """Draws fresh rows, of any number and width; None if the family's cases have no elements. A family that is special
    only by its shape or strides draws another family's rows."""
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
"""Every family by name, in the order of reports."""


OF_OPERATIONS: dict[str, dict[str, Family]] = {
    "attention": {
        "heads": Family(heads.heads, heads.heads_rows, "scores of attention: hidden tiles, tails and parts, sentinels")
    }
}
"""Families of single operations, by the operation, each in the corpus of the operation's name."""


def cases_of(family: str, dtype: str) -> list[Case]:
    """The cases of a family in one dtype. Raises UsageError for an unknown name of either."""
    known = {**FAMILIES, **{name: one for families in OF_OPERATIONS.values() for name, one in families.items()}}
    if family not in known:
        raise UsageError(f"unknown family {family!r}; {near_matches(family, list(known))}")
    fmt = FORMATS[known_dtype(dtype)]
    return [draft.case(family, fmt) for draft in known[family].drafts(fmt)]
