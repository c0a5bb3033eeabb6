"""The case families, from which the edge corpus is generated.

A family is a function from a format to drafts of cases. ``python -m softcheck.cases.families corpora/edge`` writes the
corpus anew, one file per family.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from oracles.formats import FORMATS, Format
from softcheck.cases.case import Case
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.families import layouts, magnitude, masking, patterns, plain, shapes, tiny
from softcheck.cases.families.draft import Draft
from softcheck.errors import UsageError, near_matches

__all__ = ["FAMILIES", "Family", "cases_of"]


class Family(NamedTuple):
    """A named group of cases."""

    drafts: Callable[[Format], Iterator[Draft]]
    description: str
    """One line."""


FAMILIES: dict[str, Family] = {
    "huge": Family(magnitude.huge, "logits up to the format's maximum"),
    "shifted": Family(magnitude.shifted, "the same differences far from zero"),
    "padding": Family(masking.padding, "-inf logits: leading, trailing, alternating, all but one, all"),
    "special": Family(masking.special, "+inf and NaN at every kind of place"),
    "widths": Family(shapes.widths, "column counts around powers of two, negative logits"),
    "finfo-min": Family(magnitude.finfo_min, "the format's most negative finite value as a mask"),
    "subnormal-logits": Family(tiny.subnormal_logits, "subnormal logits"),
    "subnormal-results": Family(tiny.subnormal_results, "probabilities that are subnormal or round to zero"),
    "ties": Family(plain.ties, "equal and neighbouring logits"),
    "one-hot": Family(plain.one_hot, "one peak at every position"),
    "ramp": Family(plain.ramp, "equally spaced logits"),
    "normal": Family(plain.normal, "normal logits, scale 0.1 to 100"),
    "uniform": Family(plain.uniform, "equal logits: every probability is 1/N"),
    "negative": Family(magnitude.negative, "every logit far below zero"),
    "positive": Family(magnitude.positive, "every logit where exp alone overflows"),
    "sorted": Family(plain.ordered, "ascending and descending rows"),
    "one-column": Family(shapes.one_column, "one column: probability 1"),
    "empty": Family(shapes.empty, "no rows, no columns"),
    "layout": Family(layouts.layout, "row steps, slices, transposed and expanded matrices, odd offsets"),
    "sources": Family(shapes.sources, "shapes of the tutorials"),
    "format-specials": Family(patterns.format_specials, "patterns at the format's edges, NaN payloads"),
    "wide": Family(shapes.wide, "65536 to 2^20 columns"),
    "rows": Family(shapes.rows, "row counts around 65536"),
    "temperature": Family(magnitude.temperature, "logits times 1e4"),
    "random-bits": Family(patterns.random_bits, "random bit patterns"),
    "cancellation": Family(tiny.cancellation, "sums and differences that lose digits"),
}
"""Every family by name, in the order of reports."""


def cases_of(family: str, dtype: str) -> list[Case]:
    """The cases of a family in one dtype. Raises UsageError for an unknown name of either."""
    if family not in FAMILIES:
        raise UsageError(f"unknown family {family!r}; {near_matches(family, list(FAMILIES))}")
    fmt = FORMATS[known_dtype(dtype)]
    return [draft.case(family, fmt) for draft in FAMILIES[family].drafts(fmt)]
